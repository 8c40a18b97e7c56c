"""The desk: a certified policy decides the cases it is sure of, and experts read the others.

Cases above the certified threshold are decided automatically. The others wait in a queue. Audits
check all the time whether the promise is kept. `expertload desk serve` runs a desk.
"""

from expertload.desk.desk import Desk
from expertload.desk.settings import Rules

__all__ = ["Desk", "Rules"]
