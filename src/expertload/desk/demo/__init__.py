"""A desk to try: real images, a real network, a certified policy, and colleagues who help."""

from expertload.desk.demo._cast import Cast
from expertload.desk.demo._digits import Digits, train
from expertload.desk.demo._stage import DEMO_RULES, prepare

__all__ = ["DEMO_RULES", "Cast", "Digits", "prepare", "train"]
