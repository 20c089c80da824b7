//! The metadata of a random model.

use pantheon_codegen::mix::Mix;

use crate::gguf::Writer;
use crate::model::Shape;

/// Trained context that the file claims.
const CONTEXT: u32 = 262_144;

/// Adds everything but the tokenizer's keys.
pub(super) fn write_keys(writer: &mut Writer, name: &str, shape: &Shape, mix: &Mix) {
    writer
        .key("general.architecture", "qwen35moe")
        .key("general.type", "model")
        .key("general.name", format!("{name} with random weights").as_str())
        .key("general.file_type", mix.file_type)
        .key("general.quantization_version", 2u32)
        .key("qwen35moe.context_length", CONTEXT)
        .key("qwen35moe.rope.freq_base", shape.rope_base)
        .key("qwen35moe.attention.layer_norm_rms_epsilon", shape.rms_eps)
        .key("qwen35moe.rope.dimension_sections", shape.rope_sections.map(|n| n as i32).to_vec());
    for (key, value) in [
        ("block_count", shape.n_layer),
        ("embedding_length", shape.n_embd),
        ("full_attention_interval", shape.full_attention_interval),
        ("attention.head_count", shape.n_head),
        ("attention.head_count_kv", shape.n_head_kv),
        ("attention.key_length", shape.head_dim),
        ("attention.value_length", shape.head_dim),
        ("rope.dimension_count", shape.rope_dim),
        ("expert_count", shape.n_expert),
        ("expert_used_count", shape.n_expert_used),
        ("expert_feed_forward_length", shape.expert_ff),
        ("expert_shared_feed_forward_length", shape.shared_ff),
        ("ssm.conv_kernel", shape.conv_taps),
        ("ssm.state_size", shape.gdn_head_dim),
        ("ssm.group_count", shape.gdn_k_heads),
        ("ssm.time_step_rank", shape.gdn_v_heads),
        ("ssm.inner_size", shape.value_dim()),
    ] {
        writer.key(&format!("qwen35moe.{key}"), value as u32);
    }
}
