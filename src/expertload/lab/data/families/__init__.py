"""The families of data sets: one file each, with the entries it adds to the registry."""

from expertload.lab.data.families import (
    cifar,
    cifar100_c,
    digits,
    fashion_mnist,
    image_folder,
    medmnist,
    npz,
    svhn,
    tiny_imagenet,
)

__all__ = ["ENTRIES"]

ENTRIES = (
    *digits.ENTRIES,
    *cifar.ENTRIES,
    *cifar100_c.ENTRIES,
    *tiny_imagenet.ENTRIES,
    *medmnist.ENTRIES,
    *svhn.ENTRIES,
    *fashion_mnist.ENTRIES,
    *image_folder.ENTRIES,
    *npz.ENTRIES,
)
