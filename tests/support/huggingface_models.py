"""Tiny and full-size models of Hugging Face with random weights, and batches for them."""

from __future__ import annotations

from typing import Any


def tiny(transformers: Any, name: str) -> Any:
    """Returns one of "GPT-2", "BERT", "DistilBERT", "ViT", "T5", in evaluation mode."""
    sizes = {"vocab_size": 100}
    if name == "GPT-2":
        config = transformers.GPT2Config(
            **sizes, n_embd=32, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
        )
        return transformers.GPT2LMHeadModel(config).eval()
    if name == "BERT":
        config = transformers.BertConfig(
            **sizes,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        return transformers.BertForMaskedLM(config).eval()
    if name == "DistilBERT":
        config = transformers.DistilBertConfig(
            **sizes, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=32
        )
        return transformers.DistilBertForSequenceClassification(config).eval()
    if name == "ViT":
        config = transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            image_size=16,
            patch_size=4,
            num_labels=5,
        )
        return transformers.ViTForImageClassification(config).eval()
    config = transformers.T5Config(
        **sizes, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config).eval()


def full_size(transformers: Any, name: str) -> Any:
    """Returns one of "GPT-2", "BERT", "DistilBERT", "ViT" in the size of the published weights, in evaluation mode."""
    if name == "GPT-2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    if name == "BERT":
        return transformers.BertForMaskedLM(transformers.BertConfig()).eval()
    if name == "DistilBERT":
        return transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig()).eval()
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)).eval()


def batch_for(torch: Any, name: str, model: Any, rows: int = 2, length: int = 8) -> dict[str, Any]:
    """Returns a batch as a data loader provides it, with labels; the last row of a text is padded."""
    generator = torch.Generator().manual_seed(1)
    if name == "ViT":
        config = model.config
        images = torch.randn(rows, 3, config.image_size, config.image_size, generator=generator)
        return {"pixel_values": images, "labels": torch.arange(rows) % config.num_labels}
    tokens = torch.randint(1, model.config.vocab_size, (rows, length), generator=generator)
    mask = torch.ones_like(tokens)
    mask[-1, length // 2 :] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    if name == "DistilBERT":
        labels = torch.arange(rows) % 2
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}
