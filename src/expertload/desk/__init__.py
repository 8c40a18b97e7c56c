"""The human-AI system, running: what the policy is sure of is decided, the rest waits for experts.

Cases come in, those above the certified threshold are decided automatically, the others wait in a
queue, and the promise is watched while it is used. `expertload desk serve` runs it.
"""

from expertload.desk.desk import Desk
from expertload.desk.settings import Rules

__all__ = ["Desk", "Rules"]
