"""Tiny random models and tokenizers, built without a hub, for every test of the models room."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

LINES = (
    "a an the film is was not very good bad great awful dull bright story plot actor music long short",
    "love hate boring moving warm cold and but it i we they this that never always almost quite",
)
WORDS = [word for line in LINES for word in line.split()]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
VOCABULARY = {word: index for index, word in enumerate([*SPECIAL, *WORDS])}
PAD = VOCABULARY["<pad>"]


def tiny_tokenizer(token_types: bool = True) -> PreTrainedTokenizerFast:
    """Whole words, the usual special tokens, pairs as ``<s> a </s> b </s>``; pad id 1 as mpnet and roberta fix it."""
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", VOCABULARY["<s>"]), ("</s>", VOCABULARY["</s>"])],
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if token_types else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_input_names=names,
    )


def tiny_config(family: str, *, depth: int = 4, width: int = 16, **changes: Any) -> PreTrainedConfig:
    """A configuration of a few thousand parameters for one family."""
    common: dict[str, Any] = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": 2,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 160,
        "pad_token_id": PAD,
        "initializer_range": 0.3,
    }
    if family == "distilbert":
        config: PreTrainedConfig = DistilBertConfig(
            vocab_size=len(VOCABULARY),
            dim=width,
            n_layers=depth,
            n_heads=2,
            hidden_dim=2 * width,
            max_position_embeddings=160,
            pad_token_id=PAD,
            initializer_range=0.3,
            **changes,
        )
    elif family == "albert":
        config = AlbertConfig(**{**common, "embedding_size": 8, **changes})
    elif family == "electra":
        config = ElectraConfig(**{**common, "embedding_size": 8, **changes})
    elif family == "deberta-v2":
        relative: dict[str, Any] = {
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["p2c", "c2p"],
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "conv_kernel_size": 3,
            "position_biased_input": False,
            "type_vocab_size": 2,
        }
        config = DebertaV2Config(**{**common, **relative, **changes})
    else:
        kind = {"bert": BertConfig, "roberta": RobertaConfig, "mpnet": MPNetConfig}[family]
        types = {"type_vocab_size": 2} if family == "roberta" else {}
        config = kind(**{**common, **types, **changes})
    return config


def tiny_backbone(family: str, seed: int = 0, **changes: Any) -> Any:
    """A random encoder of one family, in eval mode."""
    torch.manual_seed(seed)
    return AutoModel.from_config(tiny_config(family, **changes)).eval()


def save_backbone(folder: Path, family: str = "bert", seed: int = 0, **changes: Any) -> Path:
    """A random encoder with its tokenizer as an ordinary model folder."""
    tiny_backbone(family, seed, **changes).save_pretrained(folder)
    tiny_tokenizer(token_types=family not in {"distilbert", "mpnet", "roberta"}).save_pretrained(folder)
    return folder


def token_batch(samples: int = 5, tokens: int = 9, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random ids, a mask with a different length for every sample, and token types, each [samples, tokens]."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(len(SPECIAL), len(VOCABULARY), (samples, tokens), generator=generator)
    lengths = torch.arange(samples) % (tokens - 2) + 3
    lengths[0] = tokens
    mask = (torch.arange(tokens)[None] < lengths[:, None]).long()
    types = (torch.arange(tokens)[None] >= (lengths // 2)[:, None]).long() * mask
    return ids.where(mask.bool(), torch.tensor(PAD)), mask, types


def write_reviews(folder: Path, rows: dict[str, int], seed: int = 0) -> Path:
    """SST-2-like TSV files whose label is the one word ``good`` or ``bad``: a task a tiny model can learn."""
    generator = random.Random(seed)
    plain = [word for word in WORDS if word not in {"good", "bad"}]
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in rows.items():
        lines = ["sentence\tlabel"]
        for _ in range(count):
            label = generator.randrange(2)
            words = [generator.choice(plain) for _ in range(generator.randrange(1, 9))]
            words.insert(generator.randrange(len(words) + 1), ("bad", "good")[label])
            lines.append(f"{' '.join(words)} \t{label}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def tiny_model(folder: Path, family: str = "bert", **changes: Any) -> Path:
    """A random multi-exit sst2 model (mean pooling, per-layer poolers) with its tokenizer, saved in ``folder``."""
    from exitbench.models import MultiExitConfig, MultiExitModel

    encoder = save_backbone(folder.with_name(f"{folder.name}-encoder"), family, **changes)
    config = MultiExitConfig(("negative", "positive"), "mean", "per-layer", task="sst2")
    MultiExitModel.from_backbone(encoder, config).save_pretrained(folder)
    return folder


def collected_folder(folder: Path, *, depth: int, rows: int) -> Path:
    """``model``, ``data/dev.tsv`` and ``cache`` in a folder, the cache made by the program itself."""
    from tests.support.command_line import exit_code

    tiny_model(folder / "model", depth=depth)
    write_reviews(folder / "data", {"dev": rows})
    words = "collect", "--model", folder / "model", "--data-dir", folder / "data", "--out", folder / "cache"
    assert exit_code(*words, "--device", "cpu") == 0
    return folder


def two_processes(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` as two CPU processes that know of each other (accelerate's launcher needs MPI for that)."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*launch, *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=300)
