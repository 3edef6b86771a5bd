"""Three turns with parallel tools, an error, a plot and a follow-up, against servers that refuse what providers refuse."""

import pytest
from api import QUICK
from server import Server
from strict_model import PROVIDERS, StrictModel
from test_chat import SALES, new_thread, say

# provider, model, and how many refusals may teach something: what the tables know costs none.
MODELS = [
    ("openai", "gpt-6-luna", 0), ("openai", "gpt-6-astra", 0), ("openai", "gpt-6.1-sol", 0), ("openai", "gpt-4o-mini", 0), ("openai", "gpt-5.1", 0),
    ("openai-chat", "gpt-6-luna", 0), ("openai-chat", "gpt-6-astra", 0), ("openai-chat", "gpt-4o-mini", 0),
    ("azure", "mine", 1), ("azure-dated", "gpt-4o-mini", 0),
    ("anthropic", "claude-sonnet-5-5", 0), ("anthropic", "claude-opus-5-5", 0), ("anthropic", "claude-sonnet-4-5", 0), ("anthropic", "claude-haiku-4-5", 0),
    ("gemini", "gemini-3-flash", 0), ("deepseek", "deepseek-v4-flash", 0), ("deepseek", "some-alias", 1), ("moonshot", "kimi-k2.6", 0),
    ("mistral", "mistral-large-latest", 0), ("groq", "openai/gpt-oss-120b", 0), ("openrouter", "anthropic/claude-sonnet-5.5", 0),
    ("together", "Qwen/Qwen3-235B-A22B", 0), ("xai", "grok-4", 0), ("ollama", "qwen2.5-coder:14b", 0), ("ollama", "gpt-oss:20b", 0),
    ("vllm", "qwen3", 1), ("llamacpp", "any", 0), ("lmstudio", "local", 0),
]


@pytest.fixture(scope="module")
def strict():
    model = StrictModel()
    yield model
    model.close()


@pytest.mark.parametrize("provider,name,may_learn", MODELS, ids=[f"{p}-{m}".replace("/", "-") for p, m, _ in MODELS])
def test_three_turns(strict, tmp_path, provider, name, may_learn):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    strict.refused.clear()
    strict.asked.clear()
    with Server(tmp_path, **QUICK, **strict.settings(provider, name), LLM_MAX_RETRIES=1, AGENT_TIMEOUT_SECONDS=120) as server:
        thread = new_thread(server)
        learned = []
        for question, want in (("which region leads?", "East leads with 45."), ("plot it", "Drawn."), ("say it again", "As I said, East leads with 45.")):
            answer = say(server, thread, question)
            assert answer["status"] == "succeeded" and answer["response"] == want and "warning" not in answer, (answer["response"], strict.refused)
            assert "flagged" not in answer
            learned.append(len(strict.refused))
            if question == "which region leads?":
                assert len(answer["code_runs"]) == 2 and answer["code_runs"][1]["status"] == "failed"
            if question == "plot it":
                assert len(answer["images"]) == 1
        assert learned[0] <= may_learn and learned[-1] == learned[0], strict.refused
        assert len(strict.asked) - len(strict.refused) <= 6
    log = server.log.read_text()
    assert "sk-strict" not in log


def test_every_provider_of_the_page_has_a_row():
    from pathlib import Path
    page = (Path(__file__).resolve().parent.parent.parent / "docs/models.md").read_text().lower()
    for provider in PROVIDERS:
        word = {"openai-chat": "openai", "azure-dated": "dated", "llamacpp": "llama.cpp", "lmstudio": "lm studio"}.get(provider, provider)
        assert word in page, provider
