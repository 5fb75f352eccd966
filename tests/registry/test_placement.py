"""Placement: which dies, or the CPU, and why not (S58-S60, S62, D7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import PlacementRefused
from registry.placement import Demand, DieRoom, place, place_on_dies, place_on_host
from tests.registry.conftest import GIB

K80_BUDGET = 11 * GIB


def demand(weights_gib=1.0, kv_gib=0.0, scratch_gib=0.0, context_len=8192):
    return Demand(
        "Qwen3-8B",
        int(weights_gib * GIB),
        int(kv_gib * GIB),
        int(scratch_gib * GIB),
        context_len,
        2 * context_len,
    )


def k80(*used_gib, failed=()):
    """Dies in pairs on cards, 11 GiB of budget each, so much of it used."""
    return [
        DieRoom(i, i // 2, K80_BUDGET, int(used * GIB), "lost" if i in failed else "")
        for i, used in enumerate(used_gib)
    ]


def test_a_small_model_takes_one_die():
    assert place(demand(2, 1), k80(0, 0), 0).die_bytes == {0: 3 * GIB}


def test_singles_gather_on_a_card_in_use():
    """S60: a die whose card-mate is occupied is taken first, so that whole cards stay free."""
    assert list(place(demand(2), k80(0, 0, 5, 0), 0).die_bytes) == [3]


def test_among_packed_dies_the_freest_is_taken():
    """S60."""
    assert list(place(demand(2), k80(4, 6, 5, 1, 0, 0), 0).die_bytes) == [3]


def test_a_big_model_takes_both_dies_of_one_card():
    """S59: never one die of each of two cards, however free those are."""
    assert place(demand(16), k80(5, 0, 0, 5, 2, 2), 0).die_bytes == {4: 8 * GIB, 5: 8 * GIB}


def test_an_idle_card_is_preferred_to_a_freer_total():
    """S59: fully idle before most aggregate room."""
    dies = [*k80(0.5, 0), DieRoom(2, 1, 9 * GIB, 0), DieRoom(3, 1, 9 * GIB, 0)]
    assert list(place(demand(16), dies, 0).die_bytes) == [2, 3]


def test_among_used_cards_the_one_with_most_room_is_taken():
    """S59."""
    assert list(place(demand(16), k80(2, 2, 1, 1, 2.5, 2.5), 0).die_bytes) == [2, 3]


def test_larger_models_take_whole_cards_in_order():
    """D7: more than two dies are split by layer over whole cards."""
    assert list(place(demand(40), k80(0, 0, 9, 0, 0, 0), 0).die_bytes) == [0, 1, 4, 5]


def test_scratch_is_needed_on_every_die():
    each = place(demand(16, 2, 1), k80(0, 0), 0).die_bytes
    assert each == {0: 10 * GIB, 1: 10 * GIB}


def measured(**gib_by_num_dies):
    """A model whose bytes on each die are known: one=(3,), two=(3, 1); no other number can run it."""
    sizes = {{"one": 1, "two": 2, "four": 4}[name]: gib for name, gib in gib_by_num_dies.items()}

    def shares(num_dies):
        if num_dies not in sizes:
            raise PlacementRefused(f"It cannot run on {num_dies} dies.")
        return tuple(int(gib * GIB) for gib in sizes[num_dies])

    return replace(demand(16), measured=shares)


def test_measured_shares_are_charged_die_by_die():
    """In the order of the layers, which is that of the ordinals."""
    uneven = measured(one=(13,), two=(9, 4))
    assert place(uneven, k80(0, 0), 0).die_bytes == {0: 9 * GIB, 1: 4 * GIB}
    assert place(uneven, k80(0, 0, 0, 0), 0, [3, 0]).die_bytes == {0: 9 * GIB, 3: 4 * GIB}
    assert place(uneven, k80(5, 0, 0, 5), 0).die_bytes == {2: 9 * GIB, 3: 4 * GIB}


def test_measured_shares_are_refused_die_by_die():
    with pytest.raises(
        PlacementRefused, match=r"needs 13.0 GiB.*9.0 GiB on die 0, but die 0 has 6.0"
    ):
        place(measured(one=(13,), two=(9, 4)), k80(5, 0), 0, [0, 1])


def test_whole_cards_are_chosen_by_what_each_die_must_hold():
    uneven = measured(one=(26,), two=(18, 8), four=(9, 9, 4, 4))
    assert list(place(uneven, k80(5, 5, 0, 0, 5, 5), 0).die_bytes) == [2, 3, 4, 5]


def test_cards_whose_ordinals_lie_apart():
    """Room is looked for where the share will go: layers follow the ordinals, not the cards."""
    dies = [DieRoom(ordinal, ordinal % 2, gib * GIB, 0) for ordinal, gib in enumerate((1, 3, 2, 4))]
    uneven = measured(one=(26,), four=(1, 2, 3, 4))
    with pytest.raises(PlacementRefused, match="no set of cards has room"):
        place(uneven, dies, 0)
    dies = [
        replace(die, budget_bytes=gib * GIB) for die, gib in zip(dies, (1, 2, 3, 4), strict=True)
    ]
    assert place(uneven, dies, 0).die_bytes == {i: (i + 1) * GIB for i in range(4)}


def test_a_number_of_dies_that_cannot_run_it_is_passed_over():
    assert len(place(measured(one=(26,), four=(9, 9, 4, 4)), k80(0, 0, 0, 0), 0).die_bytes) == 4
    with pytest.raises(PlacementRefused, match="no set of cards has room"):
        place(measured(one=(13,)), k80(0, 0), 0)
    with pytest.raises(PlacementRefused, match="cannot run on 2 dies"):
        place(measured(one=(13,)), k80(0, 0), 0, [0, 1])
    with pytest.raises(PlacementRefused, match="cannot run on 1 dies"):
        place(measured(), k80(0, 0), 0)


def test_the_dies_named_are_the_dies_taken():
    assert list(place(demand(16), k80(0, 0, 0, 0), 0, requested_dies=[3, 1]).die_bytes) == [1, 3]


def test_replicas_of_a_name_never_share_a_die_unasked():
    """D7: they are there to share the load."""
    dies = [replace(die, serves_it=die.ordinal in (0, 1)) for die in k80(2, 2, 0, 0)]
    assert list(place(demand(2), dies, 0).die_bytes) == [2]
    with pytest.raises(PlacementRefused) as refused:
        place(demand(2), [replace(die, serves_it=True) for die in dies], 0)
    assert "holds a replica of the same name already" in refused.value.reason
    assert list(place(demand(2), dies, 0, requested_dies=[0]).die_bytes) == [0]


def test_dies_named_that_are_too_full_are_refused_with_a_way_out():
    with pytest.raises(PlacementRefused) as refused:
        place(demand(7.9), k80(0, 0, 4.9, 0), 0, requested_dies=[2])
    assert "needs 7.9 GiB" in refused.value.reason
    assert "die 2 has 6.1 GiB free; try dies 3 or choose" in refused.value.reason


@pytest.mark.parametrize(
    ("requested", "said"),
    [([9], "There is no die 9 on this host. Dies: 0, 1."), ([1], "Die 1 has failed (lost)")],
)
def test_dies_that_cannot_be_used_are_refused(requested, said):
    with pytest.raises(PlacementRefused, match=r"[dD]ie") as refused:
        place(demand(), k80(0, 0, failed=[1]), 0, requested_dies=requested)
    assert said in refused.value.reason


def test_a_failed_die_hides_nobody():
    """D8, X4: the others are still placed on; its card is no pair."""
    assert list(place(demand(2), k80(0, 0, failed=[0]), 0).die_bytes) == [1]
    with pytest.raises(PlacementRefused, match=r"freest die, 1, has 11\.0 GiB free"):
        place(demand(16), k80(0, 0, failed=[0]), 0)


def test_all_dies_failed():
    with pytest.raises(PlacementRefused, match="not even the only die of this host is usable"):
        place(demand(), k80(0, failed=(0,)), 0)
    with pytest.raises(PlacementRefused, match="none of the 2 dies of this host is usable"):
        place(demand(), k80(0, 0, failed=[0, 1]), 0)


def test_a_host_without_dies_runs_on_the_cpu():
    placement = place(demand(2, 1), [], 4 * GIB)
    assert (dict(placement.die_bytes), placement.host_bytes) == ({}, 3 * GIB)


def test_too_little_host_memory_names_limit_and_fix():
    with pytest.raises(PlacementRefused) as refused:
        place_on_host(demand(5, 4, 0), 7 * GIB)
    reason = refused.value.reason
    assert (
        "Qwen3-8B needs 9.0 GiB (weights 5.0 GiB, KV memory 4.0 GiB: 16,384 positions for a context"
        " length of 8,192 tokens)" in reason
    )
    assert "but 7.0 GiB of host memory are available" in reason
    assert "lower the context length to 4096 tokens, unload another model or choose" in reason


def test_a_context_that_would_not_help_is_not_proposed():
    with pytest.raises(PlacementRefused) as refused:
        place_on_host(demand(8, 4), 7 * GIB)
    assert "context length to" not in refused.value.reason


sizes = st.integers(0, 30 * GIB)
hosts = st.lists(
    st.tuples(st.integers(0, 12 * GIB), st.integers(0, 14 * GIB), st.booleans()),
    min_size=1,
    max_size=16,
).map(
    lambda rows: [
        DieRoom(i, i // 2, budget, used, "lost" if failed else "")
        for i, (budget, used, failed) in enumerate(rows)
    ]
)
demands = st.builds(
    Demand, st.just("m"), sizes, sizes, st.integers(0, GIB), st.integers(1, 1 << 17)
)


@given(demands, hosts)
def test_no_placement_exceeds_a_budget(wanted, dies):
    """Never over budget, never on a failed die, and all of the demand is covered."""
    try:
        placement = place_on_dies(wanted, dies)
    except PlacementRefused as refused:
        assert refused.reason.endswith(".")
        return
    room = {die.ordinal: die for die in dies}
    for ordinal, num_bytes in placement.die_bytes.items():
        assert num_bytes <= room[ordinal].free_bytes
        assert not room[ordinal].failure
    covered = sum(placement.die_bytes.values()) - len(placement.die_bytes) * wanted.scratch_bytes
    assert covered >= wanted.weight_bytes + wanted.kv_bytes


@given(demands, hosts)
def test_several_dies_are_whole_cards(wanted, dies):
    try:
        chosen = list(place_on_dies(wanted, dies).die_bytes)
    except PlacementRefused:
        return
    assert chosen == sorted(chosen)
    if len(chosen) > 1:
        assert len(chosen) % 2 == 0
        assert all(chosen[i] + 1 == chosen[i + 1] for i in range(0, len(chosen), 2))
        assert all(ordinal % 2 == 0 for ordinal in chosen[::2])


@given(demands, hosts)
def test_one_die_is_taken_whenever_one_is_enough(wanted, dies):
    fits = any(d.free_bytes >= wanted.total_bytes and not d.failure for d in dies)
    try:
        assert (len(place_on_dies(wanted, dies).die_bytes) == 1) == fits
    except PlacementRefused:
        assert not fits


@given(demands, st.integers(0, 64 * GIB))
def test_the_cpu_takes_exactly_what_fits(wanted, available):
    try:
        assert place_on_host(wanted, available).host_bytes == wanted.total_bytes <= available
    except PlacementRefused:
        assert wanted.total_bytes > available


@given(demands, st.integers(0, 64 * GIB))
def test_a_proposed_context_would_have_fitted(wanted, available):
    """The fix a refusal names works."""
    try:
        place_on_host(wanted, available)
    except PlacementRefused as refused:
        _, found, rest = refused.reason.partition("lower the context length to ")
        if not found:
            return
        shorter = int(rest.split()[0])
        kv_bytes = wanted.kv_bytes * shorter // wanted.context_len
        place_on_host(
            Demand("m", wanted.weight_bytes, kv_bytes, wanted.scratch_bytes, shorter, 2 * shorter),
            available,
        )


@given(demands, hosts)
def test_singles_gather_wherever_they_can(wanted, dies):
    """S60: a card in use takes one more before an idle card is broken into."""
    try:
        chosen = list(place_on_dies(wanted, dies).die_bytes)
    except PlacementRefused:
        return
    if len(chosen) > 1:
        return
    in_use = {die.ordinal for die in dies if die.used_bytes and not die.failure}
    each = wanted.shares(1)[0]
    packed = [
        die.ordinal
        for die in dies
        if not die.failure and die.free_bytes >= each and die.ordinal ^ 1 in in_use
    ]
    assert chosen[0] in packed or not packed


@given(demands, hosts)
def test_a_refusal_means_that_nothing_fits(wanted, dies):
    """Neither one die, nor both of a card, nor whole cards together."""
    try:
        place_on_dies(wanted, dies)
        return
    except PlacementRefused as refused:
        assert "die" in refused.reason
    free = {die.ordinal: die.free_bytes for die in dies if not die.failure}
    cards = [(o, o + 1) for o in range(0, len(dies), 2) if o in free and o + 1 in free]
    assert all(num_bytes < wanted.shares(1)[0] for num_bytes in free.values())
    for num_cards in range(1, len(cards) + 1):
        each = wanted.shares(2 * num_cards)[0]
        roomy = [card for card in cards if min(free[o] for o in card) >= each]
        assert len(roomy) < num_cards


def test_the_parts_that_are_named_make_the_sum():
    """On a host what is counted for buffers; on dies what was measured beyond weights and KV memory."""
    of_host = demand(5, 3, 1)
    assert of_host.describe().startswith(
        "Qwen3-8B needs 9.0 GiB (weights 5.0 GiB, KV memory 3.0 GiB:"
    )
    assert of_host.describe().endswith(" 8,192 tokens; buffers 1.0 GiB)")
    assert of_host.describe(2).endswith(" 8,192 tokens; buffers 2.0 GiB)")
    assert demand(5, 3).describe().endswith(" 8,192 tokens)")
