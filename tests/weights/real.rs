//! The shape and the facts of the embedded model's file.

use pantheon::gguf::Gguf;
use pantheon::model::Shape;
use pantheon::weights::{FileShape, RopeScaling};

static EMBEDDED: &[u8] = include_bytes!("../../assets/tiny-q4_k_m.gguf");

#[test]
fn the_embedded_file_is_read_whole() {
    let gguf = Gguf::from_static("embedded", EMBEDDED).unwrap();
    let file = FileShape::read(&gguf).unwrap();
    let expected = Shape {
        name: "",
        n_layer: 6,
        full_attention_interval: 3,
        n_embd: 256,
        n_vocab: 2048,
        n_head: 4,
        n_head_kv: 2,
        head_dim: 64,
        rope_dim: 16,
        rope_sections: [3, 3, 2, 0],
        rope_base: 1e7,
        rms_eps: 1e-6,
        n_expert: 8,
        n_expert_used: 2,
        expert_ff: 256,
        shared_ff: 256,
        gdn_k_heads: 2,
        gdn_v_heads: 4,
        gdn_head_dim: 64,
        conv_taps: 4,
    };
    assert_eq!(file.shape, expected);
    assert_eq!(file.warnings, Vec::<String>::new());
    assert_eq!(file.facts.context_length, 4096);
    assert_eq!(file.facts.rope_scaling, RopeScaling::None);
    assert_eq!((file.facts.expert_weights_scale, file.facts.draft_blocks), (1.0, 0));
}
