"""The networks whose training is emulated: their parameters, and the time of one step.

The figures are those of the Soft Memory Box poster (ICSE 2018, section 3): one Titan X, Caffe.
"""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 10**6
"""10^6 bytes, as in the poster, and not 2^20."""


@dataclass(frozen=True)
class Network:
    """A network as its training looks from outside."""

    key: str
    name: str
    megabytes: int
    """Of its parameters, in 10^6 bytes."""
    compute_ms: int
    """The computation of one step."""

    @property
    def bytes(self) -> int:
        """The bytes of its parameters."""
        return self.megabytes * MEGABYTE


NETWORKS = {
    each.key: each
    for each in (
        Network("inception_v1", "Inception-v1", 51, 189),
        Network("resnet50", "ResNet-50", 121, 233),
        Network("inception_resnet_v2", "Inception-ResNet-v2", 214, 296),
        Network("vgg16", "VGG-16", 528, 190),
    )
}
