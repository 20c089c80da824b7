//! Models made of a formula: any shape, any block type, the same bytes on every machine.
//!
//! `tests/golden/llama.py` holds the same formulas, so that llama.cpp can be asked about a model that
//! no file of this repository contains. A tensor's values come from a stream of 64-bit words:
//! splitmix64, started at the FNV-1a hash of its name.

use std::io::Write;

use pantheon::gguf::{Gguf, Tensor, TensorInfo, Value, Writer};
use pantheon::model::Shape;
use pantheon::quant::GgmlType;
use tempfile::NamedTempFile;

use super::open;

/// Word `i` of the stream called `name`.
pub fn word(name: &str, i: u64) -> u64 {
    let fnv = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let z = seed.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `n` token ids below `vocab`.
pub fn tokens(name: &str, n: usize, vocab: usize) -> Vec<u32> {
    (0..n as u64).map(|i| (word(name, i) % vocab as u64) as u32).collect()
}

/// Value `i` of the tensor `name`, for types that are not blocks.
pub fn value(name: &str, i: u64) -> f32 {
    // 24 random bits as a number in [-1, 1); everything below is exact or rounds once.
    let u = ((word(name, i) >> 40) as i32 - (1 << 23)) as f32 / (1 << 23) as f32;
    let ends = |suffixes: &[&str]| suffixes.iter().any(|s| name.ends_with(s));
    if ends(&["norm.weight"]) {
        1.0 + u / 4.0
    } else if ends(&["ssm_a"]) {
        -(1.0 / 64.0 + (u + 1.0) / 4.0)
    } else if ends(&["token_embd.weight"]) {
        // Large beside what the layers add, so that rounding does not grow from layer to layer.
        u * 8.0
    } else if ends(&["ssm_dt.bias"]) {
        u
    } else if ends(&["ssm_conv1d.weight", "ffn_gate_inp.weight"]) || name == "output.weight" {
        u / 2.0
    } else {
        u / 8.0
    }
}

/// Where a block's f16 scales stand: byte offset, power of two, negative. The mantissa is random and
/// the powers make values of about 1/16 (-15 is the subnormals). All other bytes of a block are free.
fn scales(ty: GgmlType) -> &'static [(usize, i16, bool)] {
    use GgmlType as T;
    match ty {
        T::Q4_0 => &[(0, -7, false)],
        T::Q4_1 => &[(0, -7, false), (2, -4, true)],
        T::Q5_0 => &[(0, -8, false)],
        T::Q5_1 => &[(0, -8, false), (2, -4, true)],
        T::Q8_0 | T::Iq4Nl => &[(0, -11, false)],
        T::Q2K => &[(80, -8, false), (82, -8, false)],
        T::Q3K => &[(108, -10, false)],
        T::Q4K => &[(0, -13, false), (2, -10, false)],
        T::Q5K => &[(0, -14, false), (2, -10, false)],
        T::Q6K => &[(208, -15, false)],
        T::Iq2Xxs | T::Iq2Xs | T::Iq2S => &[(0, -10, false)],
        T::Iq3Xxs | T::Iq3S => &[(0, -12, false)],
        T::Iq1S => &[(0, -7, false)],
        T::Iq4Xs => &[(0, -15, false)],
        T::Tq1_0 => &[(52, -4, false)],
        T::Tq2_0 => &[(64, -5, false)],
        T::Q1_0 => &[(0, -4, false)],
        T::Q2_0 => &[(0, -5, false)],
        _ => &[],
    }
}

/// Block `b` of the tensor `name`: random bytes, then scales that make sense.
fn block(ty: GgmlType, name: &str, b: u64, out: &mut [u8]) {
    let words = out.len().div_ceil(8) as u64 + 1;
    let first = word(name, b * words);
    for (i, bytes) in (1..).zip(out.chunks_mut(8)) {
        bytes.copy_from_slice(&word(name, b * words + i).to_le_bytes()[..bytes.len()]);
    }
    let half = |exponent: i16, negative: bool| {
        (u16::from(negative) << 15) | (((exponent + 15) as u16) << 10) | (first & 1023) as u16
    };
    for &(offset, exponent, negative) in scales(ty) {
        out[offset..offset + 2].copy_from_slice(&half(exponent, negative).to_le_bytes());
    }
    match ty {
        GgmlType::Mxfp4 => out[0] = 121 + (first & 1) as u8,
        GgmlType::Nvfp4 => out[..4].iter_mut().for_each(|scale| *scale = 8 | (*scale & 15)),
        // The f16 scale is spread over the top nibbles of four words.
        GgmlType::Iq1M => {
            let half = half(-7, false);
            for (i, word) in out[48..56].chunks_exact_mut(2).enumerate() {
                word[1] = (word[1] & 0x0f) | (((half >> (4 * i)) & 0x0f) as u8) << 4;
            }
        }
        _ => {}
    }
}

/// The bytes of a tensor; `value` gives the values of types that are not blocks.
pub fn bytes(ty: GgmlType, name: &str, n: u64, value: &dyn Fn(u64) -> f32) -> Vec<u8> {
    match ty {
        GgmlType::F32 => (0..n).flat_map(|i| value(i).to_le_bytes()).collect(),
        GgmlType::F16 => (0..n).flat_map(|i| half::f16::from_f32(value(i)).to_le_bytes()).collect(),
        GgmlType::Bf16 => {
            (0..n).flat_map(|i| half::bf16::from_f32(value(i)).to_le_bytes()).collect()
        }
        _ => {
            let mut out = vec![0; n as usize / ty.block_len() * ty.block_bytes()];
            for (b, out) in (0..).zip(out.chunks_exact_mut(ty.block_bytes())) {
                block(ty, name, b, out);
            }
            out
        }
    }
}

/// Name and `ne` of every tensor of a model.
pub fn tensors(s: &Shape) -> Vec<(String, Vec<u64>)> {
    let mut out = Vec::new();
    let mut add = |name: &str, ne: &[usize]| {
        out.push((name.to_owned(), ne.iter().map(|&n| n as u64).collect()));
    };
    add("token_embd.weight", &[s.n_embd, s.n_vocab]);
    add("output_norm.weight", &[s.n_embd]);
    add("output.weight", &[s.n_embd, s.n_vocab]);
    for i in 0..s.n_layer {
        let mut add = |name: &str, ne: &[usize]| add(&format!("blk.{i}.{name}"), ne);
        experts(s, &mut add);
        if (i + 1).is_multiple_of(s.full_attention_interval) {
            attention(s, &mut add);
        } else {
            gdn(s, &mut add);
        }
    }
    out
}

fn experts(s: &Shape, add: &mut dyn FnMut(&str, &[usize])) {
    add("attn_norm.weight", &[s.n_embd]);
    add("post_attention_norm.weight", &[s.n_embd]);
    add("ffn_gate_inp.weight", &[s.n_embd, s.n_expert]);
    add("ffn_gate_inp_shexp.weight", &[s.n_embd]);
    add("ffn_gate_exps.weight", &[s.n_embd, s.expert_ff, s.n_expert]);
    add("ffn_up_exps.weight", &[s.n_embd, s.expert_ff, s.n_expert]);
    add("ffn_down_exps.weight", &[s.expert_ff, s.n_embd, s.n_expert]);
    add("ffn_gate_shexp.weight", &[s.n_embd, s.shared_ff]);
    add("ffn_up_shexp.weight", &[s.n_embd, s.shared_ff]);
    add("ffn_down_shexp.weight", &[s.shared_ff, s.n_embd]);
}

fn gdn(s: &Shape, add: &mut dyn FnMut(&str, &[usize])) {
    add("attn_qkv.weight", &[s.n_embd, s.conv_dim()]);
    add("attn_gate.weight", &[s.n_embd, s.value_dim()]);
    add("ssm_conv1d.weight", &[s.conv_taps, s.conv_dim()]);
    add("ssm_dt.bias", &[s.gdn_v_heads]);
    add("ssm_a", &[s.gdn_v_heads]);
    add("ssm_alpha.weight", &[s.n_embd, s.gdn_v_heads]);
    add("ssm_beta.weight", &[s.n_embd, s.gdn_v_heads]);
    add("ssm_norm.weight", &[s.gdn_head_dim]);
    add("ssm_out.weight", &[s.value_dim(), s.n_embd]);
}

fn attention(s: &Shape, add: &mut dyn FnMut(&str, &[usize])) {
    add("attn_q.weight", &[s.n_embd, 2 * s.q_dim()]);
    add("attn_k.weight", &[s.n_embd, s.kv_dim()]);
    add("attn_v.weight", &[s.n_embd, s.kv_dim()]);
    add("attn_q_norm.weight", &[s.head_dim]);
    add("attn_k_norm.weight", &[s.head_dim]);
    add("attn_output.weight", &[s.q_dim(), s.n_embd]);
}

/// The metadata of a model of shape `s`: a vocabulary of bytes and padding.
fn metadata(s: &Shape, out: &mut Writer) {
    let mut int = |key: &str, value: usize| {
        out.key(&format!("qwen35moe.{key}"), value as u32);
    };
    int("block_count", s.n_layer);
    int("context_length", 4096);
    int("embedding_length", s.n_embd);
    int("attention.head_count", s.n_head);
    int("attention.head_count_kv", s.n_head_kv);
    int("attention.key_length", s.head_dim);
    int("attention.value_length", s.head_dim);
    int("full_attention_interval", s.full_attention_interval);
    int("rope.dimension_count", s.rope_dim);
    int("expert_count", s.n_expert);
    int("expert_used_count", s.n_expert_used);
    int("expert_feed_forward_length", s.expert_ff);
    int("expert_shared_feed_forward_length", s.shared_ff);
    int("ssm.conv_kernel", s.conv_taps);
    int("ssm.state_size", s.gdn_head_dim);
    int("ssm.group_count", s.gdn_k_heads);
    int("ssm.time_step_rank", s.gdn_v_heads);
    int("ssm.inner_size", s.value_dim());
    out.key("qwen35moe.attention.layer_norm_rms_epsilon", s.rms_eps);
    out.key("qwen35moe.rope.freq_base", s.rope_base);
    out.key("qwen35moe.rope.dimension_sections", s.rope_sections.map(|n| n as i32).to_vec());
    vocabulary(s.n_vocab, out);
}

fn vocabulary(n: usize, out: &mut Writer) {
    let printable = (33..127).chain(161..173).chain(174..256).filter_map(char::from_u32);
    let mut tokens: Vec<String> = printable.map(String::from).collect();
    let others = 256 - tokens.len() as u32;
    tokens.extend((0..others).filter_map(|i| char::from_u32(256 + i)).map(String::from));
    tokens.extend((0..n - 256).map(|i| format!("[PAD{i}]")));
    let types: Vec<i32> = (0..n).map(|i| if i < 256 { 1 } else { 5 }).collect();
    out.key("tokenizer.ggml.model", "gpt2");
    out.key("tokenizer.ggml.pre", "qwen35");
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    out.key("tokenizer.ggml.merges", vec!["! !"]);
    out.key("tokenizer.ggml.tokens", tokens);
    out.key("tokenizer.ggml.token_type", types);
    out.key("tokenizer.ggml.eos_token_id", 0u32);
}

/// A tensor's type in a synthetic model.
pub type Types<'a> = &'a dyn Fn(&str) -> GgmlType;
/// Value `i` of the named tensor, where it is not made of blocks.
pub type Values<'a> = &'a dyn Fn(&str, u64) -> f32;

/// Writes a model of shape `s`.
pub fn write(s: &Shape, types: Types<'_>, values: Values<'_>) -> NamedTempFile {
    let mut out = Writer::new();
    out.key("general.architecture", "qwen35moe");
    metadata(s, &mut out);
    for (name, ne) in tensors(s) {
        let ty = if is_plain(&name) { GgmlType::F32 } else { types(&name) };
        out.tensor(&name, &ne, ty).unwrap();
    }
    save(&out, &|t| bytes(t.ty, &t.name, t.ne.iter().product(), &|i| values(&t.name, i)))
}

/// Tensors that no file quantises, and the embedding, whose size matters here.
fn is_plain(name: &str) -> bool {
    let plain = ["norm.weight", "conv1d.weight", "ssm_a", "ssm_dt.bias", "ffn_gate_inp.weight"];
    let others = ["ffn_gate_inp_shexp.weight", "token_embd.weight"];
    plain.iter().chain(&others).any(|s| name.ends_with(s))
}

/// Writes the file that `out` describes.
pub fn save(out: &Writer, data: &dyn Fn(&TensorInfo) -> Vec<u8>) -> NamedTempFile {
    let mut file = NamedTempFile::with_suffix(".gguf").unwrap();
    let mut to = std::io::BufWriter::new(&mut file);
    out.write(&mut to, |t, to| to.write_all(&data(t))).unwrap();
    to.flush().unwrap();
    drop(to);
    file
}

/// A random model of shape `s` with every matrix of type `ty`.
pub fn uniform(s: &Shape, ty: GgmlType) -> (NamedTempFile, Gguf) {
    opened(write(s, &|_| ty, &value))
}

/// The `odd` model of blocks: several types, none of them in rows of 256.
pub fn odd_blocks(s: &Shape) -> (NamedTempFile, Gguf) {
    use GgmlType as T;
    let table = [
        ("ffn_gate_exps.weight", T::Mxfp4),
        ("ffn_up_exps.weight", T::Iq4Nl),
        ("ffn_down_exps.weight", T::Q4_0),
        ("shexp.weight", T::Q8_0),
        ("attn_qkv.weight", T::Q8_0),
        ("attn_gate.weight", T::Q4_0),
        ("ssm_out.weight", T::Q5_0),
        ("attn_q.weight", T::Iq4Nl),
        ("attn_k.weight", T::Q4_1),
        ("attn_v.weight", T::Q5_1),
        ("attn_output.weight", T::Q4_0),
    ];
    let of = |name: &str| table.iter().find(|(suffix, _)| name.ends_with(suffix)).map(|x| x.1);
    opened(write(s, &|name| of(name).unwrap_or(T::F32), &value))
}

/// The file, kept for as long as its mapping is used, and its contents.
pub fn opened(file: NamedTempFile) -> (NamedTempFile, Gguf) {
    let gguf = open(file.path());
    (file, gguf)
}

/// A file's contents in memory, for tests that change something in it.
#[derive(Clone)]
pub struct Parts {
    /// Metadata in file order.
    pub keys: Vec<(String, Value)>,
    /// Tensors in file order: name, `ne`, type, data.
    pub tensors: Vec<(String, Vec<u64>, GgmlType, Vec<u8>)>,
}

impl Parts {
    /// Everything in `gguf`.
    pub fn of(gguf: &Gguf) -> Self {
        let keys = gguf.metadata().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let tensor = |t: &Tensor| (t.name.clone(), t.ne.clone(), t.ty, t.data.to_vec());
        Self { keys, tensors: gguf.tensors().iter().map(tensor).collect() }
    }

    /// Sets `qwen35moe.{key}`.
    pub fn key(&mut self, key: &str, value: impl Into<Value>) {
        let key = format!("qwen35moe.{key}");
        self.keys.retain(|(other, _)| *other != key);
        self.keys.push((key, value.into()));
    }

    /// The tensor called `name`.
    pub fn tensor(&mut self, name: &str) -> &mut (String, Vec<u64>, GgmlType, Vec<u8>) {
        self.tensors.iter_mut().find(|t| t.0 == name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// Takes the tensor called `name` out.
    pub fn remove(&mut self, name: &str) -> (String, Vec<u64>, GgmlType, Vec<u8>) {
        let index = self.tensors.iter().position(|t| t.0 == name);
        self.tensors.remove(index.unwrap_or_else(|| panic!("no tensor {name}")))
    }

    /// Adds an F32 tensor.
    pub fn add(&mut self, name: &str, ne: &[usize], value: impl Fn(u64) -> f32) {
        let ne: Vec<u64> = ne.iter().map(|&n| n as u64).collect();
        let data = bytes(GgmlType::F32, name, ne.iter().product(), &value);
        self.tensors.push((name.to_owned(), ne, GgmlType::F32, data));
    }

    /// Writes and opens the file.
    pub fn open(&self) -> (NamedTempFile, Gguf) {
        let mut out = Writer::new();
        self.keys.iter().for_each(|(key, value)| {
            out.key(key, value.clone());
        });
        for (name, ne, ty, _) in &self.tensors {
            out.tensor(name, ne, *ty).unwrap();
        }
        let data = |name: &str| self.tensors.iter().find(|t| t.0 == name).unwrap().3.clone();
        opened(save(&out, &|t| data(&t.name)))
    }
}

/// `gguf` with an appended draft block of random weights: `block_count` and
/// `nextn_predict_layers` say so, the trunk's bytes are the same.
pub fn with_draft_block(gguf: &Gguf, s: &Shape) -> (NamedTempFile, Gguf) {
    let mut parts = Parts::of(gguf);
    parts.key("block_count", s.n_layer as u32 + 1);
    parts.key("nextn_predict_layers", 1u32);
    let mut add = |name: &str, ne: &[usize]| {
        let name = format!("blk.{}.{name}", s.n_layer);
        parts.add(&name, ne, |i| value(&name, i));
    };
    experts(s, &mut add);
    attention(s, &mut add);
    add("nextn.eh_proj.weight", &[2 * s.n_embd, s.n_embd]);
    for norm in ["enorm", "hnorm", "shared_head_norm"] {
        add(&format!("nextn.{norm}.weight"), &[s.n_embd]);
    }
    parts.open()
}
