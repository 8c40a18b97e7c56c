"""A desk to try out: real images, a real network, a certified policy, and simulated colleagues."""

from expertload.desk.demo.cast import Cast
from expertload.desk.demo.digits import Digits, train
from expertload.desk.demo.stage import DEMO_RULES, prepare

__all__ = ["DEMO_RULES", "Cast", "Digits", "prepare", "train"]
