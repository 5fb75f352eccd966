from __future__ import annotations

import numpy as np

from inference.engine.batch import BatchArrays
from inference.engine.config import EngineConfig
from inference.engine.scheduler import Scheduler
from inference.engine.sequence import Sequence
from inference.engine.stats import WorkerCounts
from inference.engine.stream import StreamFeed
from tests.fakes.executor import check_batch
from tests.inference.engine.driving import request_of

CONFIG = EngineConfig(context_len=128, num_pages=16, num_slots=3, chunk_len=8)


def seated(scheduler, prompt, max_tokens=20):
    sequence = Sequence(request_of(prompt, max_tokens), StreamFeed(), 0.0)
    scheduler.add(sequence)
    return sequence


def test_decodes_come_first_and_the_chunk_after_them():
    scheduler, arrays = Scheduler(CONFIG, WorkerCounts()), BatchArrays(CONFIG)
    decoder = seated(scheduler, [5, 6])
    scheduler.prefilled(decoder, 2)
    decoder.append(7, 0.0)
    prompt = seated(scheduler, range(10, 20))
    batch = arrays.fill(scheduler.plan())
    check_batch(batch, CONFIG)
    assert batch.tokens.tolist() == [7, *range(10, 18)]
    assert batch.positions.tolist() == [2, *range(8)]
    assert batch.slots.tolist() == [0] + [1] * 8
    assert batch.logit_rows.tolist() == [0]
    scheduler.prefilled(prompt, 8)
    decoder.append(9, 0.0)
    batch = arrays.fill(scheduler.plan())
    check_batch(batch, CONFIG)
    assert batch.tokens.tolist() == [9, 18, 19]
    assert batch.positions.tolist() == [3, 8, 9]
    assert batch.logit_rows.tolist() == [0, 2]


def test_a_slot_taken_over_gets_the_pages_of_its_new_sequence():
    scheduler, arrays = Scheduler(CONFIG, WorkerCounts()), BatchArrays(CONFIG)
    first = seated(scheduler, [1] * 40)
    other = seated(scheduler, [2])
    table = arrays.fill(scheduler.plan()).page_table
    assert table[0, :2].tolist() == first.pages
    scheduler.remove(first)
    scheduler.prefilled(other, 1)
    other.append(0, 0.0)
    last = seated(scheduler, [3] * 70)
    assert last.slot == 0
    table = arrays.fill(scheduler.plan()).page_table
    assert table[0, :3].tolist() == last.pages
    assert table[1, :1].tolist() == other.pages


def test_the_arrays_are_made_once():
    scheduler, arrays = Scheduler(CONFIG, WorkerCounts()), BatchArrays(CONFIG)
    sequence = seated(scheduler, [1] * 20)
    one = arrays.fill(scheduler.plan())
    scheduler.prefilled(sequence, 8)
    two = arrays.fill(scheduler.plan())
    assert np.shares_memory(one.tokens, two.tokens)
    assert one.page_table is two.page_table


def test_steps_of_as_many_decoding_sequences_are_the_same_batch():
    """With new numbers, whatever the step between them was: who reads it in place need not look anew."""
    scheduler, arrays = Scheduler(CONFIG, WorkerCounts()), BatchArrays(CONFIG)
    first = seated(scheduler, [5])
    scheduler.prefilled(first, 1)
    first.append(6, 0.0)
    alone = arrays.fill(scheduler.plan())
    first.append(7, 0.0)
    other = seated(scheduler, [9, 9, 9])
    mixed = arrays.fill(scheduler.plan())
    assert mixed is not alone
    assert mixed.logit_rows.tolist() == [0, 3]
    scheduler.prefilled(other, 3)
    first.append(8, 0.0)
    other.append(4, 0.0)
    both = arrays.fill(scheduler.plan())
    check_batch(both, CONFIG)
    assert both.tokens.tolist() == [8, 4]
    assert both.logit_rows.tolist() == [0, 1]
    scheduler.remove(first)
    other.append(3, 0.0)
    assert arrays.fill(scheduler.plan()) is alone
    check_batch(alone, CONFIG)
    assert (alone.tokens.tolist(), alone.positions.tolist()) == ([3], [4])
    assert alone.slots.tolist() == [1]
