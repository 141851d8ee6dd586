"""Canonical form of attention."""

from __future__ import annotations

from dlbricks_core.passes.forms.draft import LayerDraft

_QUERY, _KEY, _PAST_KEY, _PAST_VALUE, _LENGTHS = 0, 1, 4, 5, 6


def attention(draft: LayerDraft) -> None:
    """Attention: without an empty cache, and causal only where that hides a key."""
    if draft.has(_PAST_KEY) and draft.has(_PAST_VALUE) and not draft.sizes(_PAST_KEY)[2]:
        draft.leave_out(_PAST_KEY)
        draft.leave_out(_PAST_VALUE)
    alone = draft.sizes(_QUERY)[-2] == draft.sizes(_KEY)[-2] == 1
    if alone and not draft.has(_LENGTHS):  # one new position sees itself and all before it
        draft.attributes["is_causal"] = 0
