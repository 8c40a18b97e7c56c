"""Every exception that expertload raises on purpose, in one tree.

::

    ExpertLoadError
    ├── InvalidInputError (ValueError)
    │   ├── EmptyInputError          no cases at all
    │   ├── ShapeError               wrong number of dimensions, lengths that differ
    │   ├── DataTypeError            not numbers, or the wrong kind of numbers
    │   ├── NonFiniteError           NaN or infinity where a number is needed
    │   ├── ProbabilityError         outside [0, 1], rows that do not sum to one, logits
    │   ├── LabelError               labels that match no column
    │   ├── CorrectnessError         correctness outside [0, 1]
    │   ├── WeightError              negative or all-zero weights
    │   ├── ParameterError           an option outside its range
    │   ├── InsufficientDataError    valid cases, but too few or too uniform for the request
    │   ├── RepeatedCaseError        a case that already has its label
    │   ├── DecisionOrderError       decisions that come before ones already counted
    │   └── NotCertifiedError        a policy without the guarantee that is needed
    ├── NotFittedError (ValueError, AttributeError)
    ├── FileFormatError (ValueError)  a saved file that is not what it should be
    │   └── DataDamagedError         a data set's file that is cut short, altered or unsafe
    ├── FileWriteError (OSError)     a file that could not be written
    ├── DataNotFoundError (FileNotFoundError)  a data set that is not on this machine
    ├── DownloadError (OSError)      a download that could not be completed
    ├── RunInUseError (OSError)      a run's folder that another process trains in
    ├── DeskError
    │   ├── DeskInUseError (OSError)       a desk's folder that another server has open
    │   ├── DeskUnavailableError (OSError) a desk or a database that does not answer
    │   └── DeskRefusedError               what the desk does not do, and why
    ├── TrainingDivergedError (ArithmeticError)  a loss that is no longer a number
    └── MissingExtraError (ImportError)

All input errors are also ``ValueError``, so code that guards against those keeps working.
"""

__all__ = [
    "CorrectnessError",
    "DataDamagedError",
    "DataNotFoundError",
    "DataTypeError",
    "DecisionOrderError",
    "DeskError",
    "DeskInUseError",
    "DeskRefusedError",
    "DeskUnavailableError",
    "DownloadError",
    "EmptyInputError",
    "ExpertLoadError",
    "FileFormatError",
    "FileWriteError",
    "InsufficientDataError",
    "InvalidInputError",
    "LabelError",
    "MissingExtraError",
    "NonFiniteError",
    "NotCertifiedError",
    "NotFittedError",
    "ParameterError",
    "ProbabilityError",
    "RepeatedCaseError",
    "RunInUseError",
    "ShapeError",
    "TrainingDivergedError",
    "WeightError",
]


class ExpertLoadError(Exception):
    """The root: catch this to catch everything expertload raises on purpose."""


class InvalidInputError(ExpertLoadError, ValueError):
    """An argument cannot be used; the message has its value and what to do."""


class EmptyInputError(InvalidInputError):
    """There are no cases."""


class ShapeError(InvalidInputError):
    """An array has the wrong number of dimensions or the wrong length."""


class DataTypeError(InvalidInputError):
    """An array does not hold the kind of values that is needed."""


class NonFiniteError(InvalidInputError):
    """An array holds NaN or infinity."""


class ProbabilityError(InvalidInputError):
    """An array does not hold probabilities."""


class LabelError(InvalidInputError):
    """A label has no column, or it is not clear which."""


class CorrectnessError(InvalidInputError):
    """Correctness is not in [0, 1]."""


class WeightError(InvalidInputError):
    """Sample weights are negative, or all zero."""


class ParameterError(InvalidInputError):
    """An option is outside its range."""


class InsufficientDataError(InvalidInputError):
    """The cases are valid, but too few or too uniform for what was asked."""


class RepeatedCaseError(InvalidInputError):
    """A case is given twice, or already has its label; nothing was counted."""


class DecisionOrderError(InvalidInputError):
    """Decisions come before ones that are already counted; nothing was counted."""


class NotCertifiedError(InvalidInputError):
    """A policy does not carry the guarantee that is needed."""


class NotFittedError(ExpertLoadError, ValueError, AttributeError):
    """An object is used before it was fitted."""


class FileFormatError(ExpertLoadError, ValueError):
    """A saved file is damaged, of another kind, or of a version that is not understood."""


class DataDamagedError(FileFormatError):
    """A data set's file is cut short, altered, or holds something that is not safe to read."""


class FileWriteError(ExpertLoadError, OSError):
    """A file could not be written; the previous file is unchanged."""


class DataNotFoundError(ExpertLoadError, FileNotFoundError):
    """A data set is not on this machine; the message has the command to run."""


class DownloadError(ExpertLoadError, OSError):
    """A download could not be completed; the received part is kept and resumed."""


class RunInUseError(ExpertLoadError, OSError):
    """Another process is training in a run's folder."""


class TrainingDivergedError(ExpertLoadError, ArithmeticError):
    """The loss is no longer a number; the previous state is kept."""


class MissingExtraError(ExpertLoadError, ImportError):
    """An optional dependency is not installed; the message names the pip command."""


class DeskError(ExpertLoadError):
    """Something about the desk; the message says what, and what to do."""


class DeskInUseError(DeskError, OSError):
    """Another server has the desk's folder open."""


class DeskUnavailableError(DeskError, OSError):
    """The desk or its database does not answer; nothing was decided."""


class DeskRefusedError(DeskError):
    """The desk does not do what was asked.

    Attributes
    ----------
    code : str
        What kind of refusal it is, in one word that programs can rely on.
    message, hint : str
        What is wrong, and what to do about it.
    key : str or None
        Of a refused line of a request: the key of its case, if that can be read.
    """

    key: str | None = None

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} Hint: {hint}" if hint else message)
        self.code, self.message, self.hint = code, message, hint
