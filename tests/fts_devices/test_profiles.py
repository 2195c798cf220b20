from __future__ import annotations

import pytest

from fts.errors import UsageError
from fts_devices.profiles import load_profile, target_names


def test_lists_the_target_of_this_version():
    assert target_names() == ("cpu-int8",)


@pytest.mark.parametrize("target", target_names())
def test_every_profile_is_complete(target):
    profile = load_profile(target)
    assert profile.target == target
    assert profile.dialects
    assert all(rule.source for rule in profile.integer_ops.values())
    assert all(profile.float_reasons.values())
    assert not set(profile.float_reasons) & set(profile.integer_ops)


def test_weights_of_the_dialect_for_any_cpu_cannot_saturate_16_bits():
    """vpmaddubsw adds two u8*s8 products in 16 bits: 2 * 255 * qmax must stay below 2^15."""
    weight = load_profile("cpu-int8").dialects["any"].weight
    assert 2 * 255 * weight.qmax < 2**15
    assert load_profile("cpu-int8").dialects["any"].isa == ()
    assert load_profile("cpu-int8").dialects["vnni"].isa == ("vnni",)


def test_an_unknown_target_names_the_nearest_and_all():
    with pytest.raises(UsageError, match=r"did you mean 'cpu-int8'\? known targets: cpu-int8"):
        load_profile("cpu-int")
    with pytest.raises(UsageError, match="'orin-int8': not in this version"):
        load_profile("orin-int8")
