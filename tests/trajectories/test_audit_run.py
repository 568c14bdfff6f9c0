"""audit_run: a run that was recorded honestly is proved; whatever is changed in it afterwards is seen."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest

from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.trajectories.audit import audit_run
from trajectories.recorded import SCRIPTS, Spoiler, record

LISTS = ("ids", "mask", "log_probs", "weight_versions")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return asyncio.run(record(tmp_path_factory.mktemp("recorded") / "run"))


@pytest.fixture
def spoiler(recorded, tmp_path):
    return Spoiler(shutil.copytree(recorded, tmp_path / "run"))


def test_an_honest_run_is_proved(recorded):
    audit = audit_run(recorded)
    assert audit.findings == []
    assert (audit.n_rollouts, audit.n_audited, audit.n_without_tokens) == (3, 3, 0)
    assert audit.calls == {"consumed": 7, "aborted": 1, "other_attempt": 1, "without_ids": 2}
    assert (len(audit.row_tokens), audit.n_rows_ending_on_mask_0, audit.n_reopened) == (3, 0, 0)
    texts = [a if isinstance(a, str) else a.text for script in SCRIPTS for a in script if not getattr(a, "error", None)]
    trained = sum(len(text) + 1 for text in texts) - len("half") - 1 - len(texts[0]) - 1
    assert audit.n_trainable == audit.tokens["sampled"] == trained
    assert audit.versions.keys() == {0, 2, 3}
    assert audit.lags.keys() == {4, 2, 1}
    assert audit.n_journals_without_rollout == 0


# --- corruption ------------------------------------------------------------------------------------


def sampled_id(s):
    s.tokens(lambda t: t["ids"].__setitem__(s.spans("sampled")[0][0], 1))


def observation_id(s):
    s.tokens(lambda t: t["ids"].__setitem__(s.spans("observation")[0][0], 1))


def prompt_id(s):
    s.tokens(lambda t: t["ids"].__setitem__(0, 1))


def _cut(s, start, stop, *, rollout=0):
    """Take ids out of lists and spans alike, so that the segment stays well formed."""

    def lists(t):
        for name in LISTS:
            del t[name][start:stop]

    def spans(head):
        count = stop - start
        for span in head["segments"][0]["spans"]:
            span[0] -= count if span[0] >= stop else 0
            span[1] -= count if span[1] >= stop else 0

    s.tokens(lists, rollout)
    s.head(spans, rollout)


def dropped_separator(s):
    start = s.spans("glue")[0][0]
    _cut(s, start, start + 1)


def dropped_end_of_turn(s):
    """The classic: the text of an answer without the id that ended it."""
    stop = s.spans("sampled")[0][1]
    _cut(s, stop - 1, stop)


def answer_cut_short(s):
    stop = s.spans("sampled")[-1][1]
    _cut(s, stop - 1, stop)


def _append(s, kind, values):
    def lists(t):
        for name, value in zip(LISTS, values, strict=True):
            t[name] += [value]

    def spans(head):
        stop = head["segments"][0]["spans"][-1][1]
        head["segments"][0]["spans"].append([stop, stop + 1, kind, 9])

    s.tokens(lists)
    s.head(spans)


def padding_trained_as_an_answer(s):
    _append(s, "sampled", (ByteRenderer.END, 1, -0.5, 3))


def mask_on_a_header(s):
    s.tokens(lambda t: t["mask"].__setitem__(s.spans("glue")[0][0], 1))


def mask_off_an_answer(s):
    s.tokens(lambda t: t["mask"].__setitem__(s.spans("sampled")[0][0], 0))


def row_that_ends_on_mask_0(s):
    s.tokens(lambda t: t["mask"].__setitem__(-1, 0))


def header_that_poses_as_sampled(s):
    def spans(head):
        found = head["segments"][0]["spans"]
        at = next(i for i, span in enumerate(found) if span[2] == "sampled" and span[3] == 1)
        found[at][0] -= 1
        found[at - 1][1] -= 1

    start = s.spans("sampled")[1][0] - 1
    s.tokens(lambda t: (t["mask"].__setitem__(start, 1), t["log_probs"].__setitem__(start, -0.5)))
    s.tokens(lambda t: t["weight_versions"].__setitem__(start, 2))
    s.head(spans)


def observation_trained(s):
    """All of it: mask, log-prob, version and span, as if the policy had said it."""
    start, stop, *_ = s.spans("observation")[0]

    def lists(t):
        for name, value in (("mask", 1), ("log_probs", -0.5), ("weight_versions", 2)):
            t[name][start:stop] = [value] * (stop - start)

    def spans(head):
        next(span for span in head["segments"][0]["spans"] if span[0] == start)[2] = "sampled"

    s.tokens(lists)
    s.head(spans)


def prompt_that_starts_later(s):
    s.head(lambda h: h["segments"][0].__setitem__("prompt_length", h["segments"][0]["prompt_length"] - 1))


def lists_of_unequal_length(s):
    s.tokens(lambda t: t["log_probs"].pop())


def log_prob_that_is_no_number(s):
    s.tokens(lambda t: t["log_probs"].__setitem__(s.spans("sampled")[0][0], float("nan")))


def other_log_prob(s):
    def nudge(t):
        t["log_probs"][s.spans("sampled")[0][0]] -= 1e-6

    s.tokens(nudge)


def log_prob_on_an_observation(s):
    s.tokens(lambda t: t["log_probs"].__setitem__(s.spans("observation")[0][0], -1.0))


def newer_weights(s):
    start, stop, *_ = s.spans("sampled")[0]
    s.tokens(lambda t: t["weight_versions"].__setitem__(slice(start, stop), [9] * (stop - start)))


def unknown_weights(s):
    start, stop, *_ = s.spans("sampled")[0]
    s.tokens(lambda t: t["weight_versions"].__setitem__(slice(start, stop), [-1] * (stop - start)))


def answers_swapped(s):
    """Two answers of equal length change places: every id was sampled, none where it stands."""
    first, last = s.spans("sampled", 1)[0], s.spans("sampled", 1)[-1]
    count = min(first[1] - first[0], last[1] - last[0])

    def swap(t):
        one, other = slice(first[0], first[0] + count), slice(last[0], last[0] + count)
        for name in LISTS:
            t[name][one], t[name][other] = t[name][other], t[name][one]

    s.tokens(swap, 1)


def segment_twice(s):
    s.change(s.rollouts[0] / "tokens.json", lambda t: t.append(t[0]))
    s.head(lambda h: h["segments"].append(h["segments"][0]))


def rollout_twice(s):
    shutil.copytree(s.rollouts[0], s.rollouts[0].with_name(s.rollouts[0].name + ".2"))


def tokens_of_another_rollout(s):
    for name in ("tokens.json", "trajectory.json"):
        shutil.copy(s.rollouts[1] / name, s.rollouts[0] / name)
    s.head(lambda h: h.update(session=0, request_id=h["request_id"].replace("_1_", "_0_")))


def tokens_of_an_earlier_attempt(s):
    """The rollout was started again; what is trained is from before."""
    s.calls(lambda records: [r.update(request_id=r["request_id"][:-1] + "1") for r in records], 2)


def last_answer_lost(s):
    start = s.spans("sampled")[-1][0]
    s.tokens(lambda t: [t[name].__delitem__(slice(start, None)) for name in LISTS])
    s.head(lambda h: h["segments"][0]["spans"].pop())


def all_tokens_lost(s):
    (s.rollouts[0] / "tokens.json").write_text("[]")
    s.head(lambda h: h.update(segments=[]))


def call_lost_from_the_journal(s):
    s.calls(lambda records: records.pop(1))


def journal_lost(s):
    s.journals[0].unlink()


def journal_line_torn(s):
    s.journals[0].write_text(s.journals[0].read_text()[:-40])


def prompt_changed_in_the_journal(s):
    s.calls(lambda records: records[1]["prompt_new"].__setitem__(0, 1))


def answer_changed_in_the_journal(s):
    s.calls(lambda records: records[0]["completion_ids"].__setitem__(0, 1))


def call_given_up_by_the_server(s):
    s.calls(lambda records: records[0].update(aborted=True))


def positive_log_prob_on_both_sides(s):
    at = s.spans("sampled")[0][0]
    s.tokens(lambda t: t["log_probs"].__setitem__(at, 0.5))
    s.calls(lambda records: records[0]["log_probs"].__setitem__(0, 0.5))


def more_than_was_asked_for(s):
    s.calls(lambda records: records[0].update(max_tokens=1))


def record_cut_by_a_full_disk(s):
    path = s.rollouts[0] / "tokens.json"
    path.write_text(path.read_text()[:-10])


CORRUPTIONS = {
    sampled_id: "wrong_ids",
    observation_id: "wrong_context",
    prompt_id: "wrong_context",
    dropped_separator: "wrong_context",
    dropped_end_of_turn: "wrong_ids",
    answer_cut_short: "wrong_ids",
    padding_trained_as_an_answer: "never_sampled",
    mask_on_a_header: "malformed",
    mask_off_an_answer: "malformed",
    row_that_ends_on_mask_0: "malformed",
    header_that_poses_as_sampled: "never_sampled",
    observation_trained: "never_sampled",
    prompt_that_starts_later: "malformed",
    lists_of_unequal_length: "malformed",
    log_prob_that_is_no_number: "malformed",
    other_log_prob: "wrong_log_probs",
    log_prob_on_an_observation: "malformed",
    newer_weights: "wrong_version",
    unknown_weights: "unknown_version",
    answers_swapped: "wrong_ids",
    segment_twice: "trained_twice",
    rollout_twice: "trained_twice",
    tokens_of_another_rollout: "wrong_log_probs",
    tokens_of_an_earlier_attempt: "other_request",
    last_answer_lost: "unconsumed",
    all_tokens_lost: "unconsumed",
    call_lost_from_the_journal: "journal",
    journal_lost: "no_journal",
    journal_line_torn: "never_sampled",
    prompt_changed_in_the_journal: "journal",
    answer_changed_in_the_journal: "journal",
    call_given_up_by_the_server: "aborted",
    positive_log_prob_on_both_sides: "journal",
    more_than_was_asked_for: "journal",
    record_cut_by_a_full_disk: "unreadable",
}


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
def test_a_deliberate_corruption_is_caught(spoiler, corrupt):
    corrupt(spoiler)
    findings = audit_run(spoiler.run_dir).findings
    assert CORRUPTIONS[corrupt] in {finding.violation.kind for finding in findings}
    touched = {path.name.partition(".")[0] for path in spoiler.rollouts}
    assert {
        finding.rollout.rpartition("/")[2].partition(".")[0] for finding in findings
    } < touched  # no other is blamed


def test_a_row_that_ends_on_mask_0_is_counted(spoiler):
    row_that_ends_on_mask_0(spoiler)
    assert audit_run(spoiler.run_dir).n_rows_ending_on_mask_0 == 1


# --- what a run may hold besides -------------------------------------------------------------------


def test_a_sample_is_part_of_the_whole_and_always_the_same(recorded, spoiler):
    audits = [audit_run(recorded, sample=0.5) for _ in range(2)]
    assert audits[0] == audits[1]
    assert 0 < audits[0].n_audited < audits[0].n_rollouts == 3
    assert audits[0].n_journals_without_rollout is None


def test_the_journal_of_a_rollout_that_never_ended_is_counted_and_no_violation(spoiler):
    shutil.rmtree(spoiler.rollouts[0])
    audit = audit_run(spoiler.run_dir)
    assert (audit.ok, audit.n_journals_without_rollout) == (True, 1)


def test_a_rollout_without_a_reward_has_no_row(spoiler):
    spoiler.head(lambda head: head.update(reward=None))
    audit = audit_run(spoiler.run_dir)
    assert audit.ok
    assert len(audit.row_tokens) == 2
    assert audit.n_trainable < audit.tokens["sampled"]


def test_a_policy_that_samples_no_tokens_has_nothing_to_prove(spoiler):
    spoiler.head(lambda head: head.update(request_id="", segments=[]))
    (spoiler.rollouts[0] / "tokens.json").write_text("[]")
    audit = audit_run(spoiler.run_dir)
    assert (audit.ok, audit.n_without_tokens) == (True, 1)


def test_a_directory_without_rollouts_proves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no recorded rollout"):
        audit_run(tmp_path)


def test_the_journal_costs_less_than_the_record(recorded):
    """Prompts are kept as differences: ids of a rollout are written about twice, not once per turn."""
    for journal in Spoiler(recorded).journals:
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        attempts = len({line["request_id"] for line in lines})
        longest = max(line["prompt_length"] + len(line["completion_ids"]) for line in lines)
        assert sum(len(line["prompt_new"]) for line in lines) < longest * attempts
