"""The adapter's effects on SGLang's own requests and answers; only if SGLang's scheduler is importable.

What: a request that ended with a token that its grammar refuses; what ``meta_info`` tells the client.
When: in an SGLang environment that includes torchvision.
Limits: no scheduler runs here.
"""

from array import array

import pytest

pytest.importorskip("sglang.srt.managers.schedule_batch")
pytest.importorskip("sglang.srt.managers.scheduler_components.output_streamer")

from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.managers import schedule_batch
from sglang.srt.managers.scheduler_components import output_streamer
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from adapters.engines.notices import Notice
from adapters.sglang.request import FIELD, ServedRequest, bind
from hybrid.xgrammar.relaxed import Relaxation

LOOSE = Notice("sglang", "r", (Relaxation("/not", "not", "XGrammar does not read it"),))


def request_of(**options):
    params = SamplingParams(max_new_tokens=9, stop_token_ids=[5])
    params.normalize(None)
    return schedule_batch.Req("r", "", array("q", [1]), params, vocab_size=300, eos_token_ids={2}, **options)


@pytest.mark.parametrize("token", [2, 5, 7])
def test_a_refused_token_ends_a_request_as_aborted(token):
    request = request_of()
    asked = ServedRequest(request)
    request.output_ids.append(token)
    request.update_finish_state()  # before SGLang asks the grammar
    assert request.finished() == (token != 7)
    asked.abort("Token is not allowed")
    request.update_finish_state()
    ended = request.finished_reason.to_json()
    assert (ended["type"], ended["status_code"]) == ("abort", 500) and "not allowed" in ended["message"]


def test_an_answer_has_what_its_request_was_told_once():
    bind()
    streamer = output_streamer.SchedulerOutputStreamer.__new__(output_streamer.SchedulerOutputStreamer)
    told, other = request_of(), request_of()
    ServedRequest(told).tell(LOOSE)
    answers = output_streamer._GenerationStreamAccumulator(
        return_logprob=False, return_hidden_states=False, return_routed_experts=False,
        return_indexer_topk=False, return_sampling_mask=False,
        spec_algorithm=SpeculativeAlgorithm.from_string(None), disaggregation_mode=DisaggregationMode.NULL,
        default_stream_interval=1, default_force_stream_interval=50,
        get_cached_tokens_details=lambda *_: None, current_weight_version="default",
        is_request_level_customized_info_key=streamer.is_request_level_customized_info_key,
    )  # fmt: skip
    for request in (told, other):
        request.output_ids.extend([7, 8, 2])
        request.update_finish_state()
        answers.accept(req=request)
    wanted = {
        "not_enforced": [{"keyword": "not", "pointer": "/not", "reason": "XGrammar does not read it"}],
        "n_not_enforced": 1,
    }
    assert answers.customized_info == {FIELD: [[wanted], []]}
