//! The shape a file has: its header, completed and checked by its tensors.

use super::facts::{FileFacts, finite};
use super::trunk::{self, ARCHITECTURE, DAMAGED_HEADER};
use crate::gguf::{Gguf, GgufError, StrArray, Tensor};
use crate::model::Shape;

/// What a file says it is.
#[derive(Debug, Clone, PartialEq)]
pub struct FileShape {
    /// Every dimension; the name is empty.
    pub shape: Shape,
    /// Facts that are not compiled in.
    pub facts: FileFacts,
    /// What is odd about the header but does not stop the file from running.
    pub warnings: Vec<String>,
}

impl FileShape {
    /// Reads the shape of a file, after refusing everything that is not a `qwen35moe` language
    /// model.
    ///
    /// # Errors
    /// If it is another kind of file, or a key or a tensor that determines the shape is missing or
    /// contradicts another.
    pub fn read(gguf: &Gguf) -> Result<Self, GgufError> {
        trunk::check_kind(gguf)?;
        let order = trunk::check_head_order(gguf)?;
        let trunk = trunk::count_layers(gguf)?;
        let facts = FileFacts::read(gguf, &trunk)?;
        let shape = Header(gguf).shape(trunk.layers)?;
        check_vocabulary(gguf, shape.n_vocab)?;
        Ok(Self { shape, facts, warnings: order.into_iter().chain(trunk.warning).collect() })
    }
}

/// Reads dimensions, each where the format keeps it.
struct Header<'a>(&'a Gguf);

/// No dimension of a sound file is larger; products of three stay within 64 bits with room.
const LARGEST: u64 = 1 << 20;
const RECONVERT: &str = "convert the model again with a current llama.cpp";

impl Header<'_> {
    fn shape(&self, n_layer: usize) -> Result<Shape, GgufError> {
        let interval = self.interval(n_layer)?;
        let n_head = self.uniform("attention.head_count")?;
        let n_head = n_head.ok_or_else(|| self.missing("attention.head_count"))?;
        let [n_embd, n_vocab] = self.embedding()?;
        let head_dim = self.head_dim(interval)?;
        let n_expert = self.need("expert_count")?;
        let n_expert_used = self.uniform("expert_used_count")?;
        let shape = Shape {
            name: "",
            n_layer,
            full_attention_interval: interval,
            n_embd,
            n_vocab,
            n_head,
            n_head_kv: self.uniform("attention.head_count_kv")?.unwrap_or(n_head),
            head_dim,
            rope_dim: self.need("rope.dimension_count")?,
            rope_sections: self.rope_sections()?,
            rope_base: self.positive("rope.freq_base")?,
            rms_eps: self.positive("attention.layer_norm_rms_epsilon")?,
            n_expert,
            n_expert_used: n_expert_used.ok_or_else(|| self.missing("expert_used_count"))?,
            expert_ff: self.ff("expert_feed_forward_length", "ffn_down_exps")?,
            shared_ff: self.ff("expert_shared_feed_forward_length", "ffn_down_shexp")?,
            gdn_k_heads: self.need("ssm.group_count")?,
            gdn_v_heads: self.need("ssm.time_step_rank")?,
            gdn_head_dim: self.need("ssm.state_size")?,
            conv_taps: self.need("ssm.conv_kernel")?,
        };
        self.check(&shape)?;
        Ok(shape)
    }

    /// What must hold between the fields.
    fn check(&self, s: &Shape) -> Result<(), GgufError> {
        let need = |holds: bool, key: &str, expected: String, found: usize| match holds {
            true => Ok(()),
            false => Err(self.wrong(key, expected, found.to_string())),
        };
        let (used, experts) = (s.n_expert_used, s.n_expert);
        let most = format!("at most expert_count = {experts}");
        need(used <= experts, "expert_used_count", most, used)?;
        let divides = s.n_head.is_multiple_of(s.n_head_kv);
        let divisor = format!("a divisor of head_count = {}", s.n_head);
        need(divides, "attention.head_count_kv", divisor, s.n_head_kv)?;
        let rotary = s.rope_dim.is_multiple_of(2) && s.rope_dim <= s.head_dim;
        let even = format!("an even number up to the head's {}", s.head_dim);
        need(rotary, "rope.dimension_count", even, s.rope_dim)?;
        let multiple = format!("a multiple of group_count = {}", s.gdn_k_heads);
        let tiles = s.gdn_v_heads.is_multiple_of(s.gdn_k_heads);
        need(tiles, "ssm.time_step_rank", multiple, s.gdn_v_heads)?;
        let inner = self.need("ssm.inner_size")?;
        let product = format!("time_step_rank * state_size = {}", s.value_dim());
        need(inner == s.value_dim(), "ssm.inner_size", product, inner)?;
        self.check_conv(s)
    }

    /// The channels of the convolution are the rows of the first GDN layer's projection.
    fn check_conv(&self, s: &Shape) -> Result<(), GgufError> {
        const NAME: &str = "blk.0.attn_qkv.weight";
        let Some(rows) = self.0.tensor(NAME).map(Tensor::rows) else { return Ok(()) };
        if s.full_attention_interval == 1 || rows == s.conv_dim() as u64 {
            return Ok(());
        }
        let expected = format!("2 * group_count * state_size + inner_size = {} rows", s.conv_dim());
        Err(self.0.tensor_error(NAME, expected, rows.to_string(), RECONVERT))
    }

    /// Width and number of rows of the embedding table; the header must agree on the width.
    fn embedding(&self) -> Result<[usize; 2], GgufError> {
        const NAME: &str = "token_embd.weight";
        let n_embd = self.need("embedding_length")?;
        let wrong = |found: String| {
            let expected = format!("shape [embedding_length = {n_embd}, vocabulary]");
            self.0.tensor_error(NAME, expected, found, RECONVERT)
        };
        let Some(table) = self.0.tensor(NAME) else { return Err(wrong("no such tensor".into())) };
        match table.ne[..] {
            [width, rows] if width == n_embd as u64 && rows <= u64::from(u32::MAX) => {
                Ok([n_embd, rows as usize])
            }
            _ => Err(wrong(table.describe())),
        }
    }

    /// Every how many layers attention is full. A list of recurrent layers, where there is one,
    /// wins over the number, but must be regular: the layer order is compiled in.
    fn interval(&self, n_layer: usize) -> Result<usize, GgufError> {
        let interval = self.dim("full_attention_interval")?.unwrap_or(4);
        let key = "attention.recurrent_layers";
        let Some(flags) = self.0.bool_list(&full(key))? else { return Ok(interval) };
        let Some(flags) = flags.get(..n_layer) else {
            let expected = format!("one entry for each of {n_layer} layers");
            return Err(self.wrong(key, expected, format!("{} entries", flags.len())));
        };
        let listed = flags.iter().position(|recurrent| !recurrent).map(|first| first + 1);
        let regular = |n: usize| flags.iter().enumerate().all(|(i, r)| *r == ((i + 1) % n != 0));
        [Some(interval), listed].into_iter().flatten().find(|n| regular(*n)).ok_or_else(|| {
            let full: Vec<usize> = (0..n_layer).filter(|&i| !flags[i]).collect();
            let expected = "full attention in every n-th layer, the others recurrent";
            self.wrong(key, expected.to_owned(), format!("full attention in layers {full:?}"))
        })
    }

    /// Size of an attention head: the header's, else that of the key norm's gain. Keys and values
    /// have the same size in this architecture.
    fn head_dim(&self, interval: usize) -> Result<usize, GgufError> {
        let norm = self.0.tensor(&format!("blk.{}.attn_k_norm.weight", interval - 1));
        let derived = norm.map(|t| t.ne[0]).filter(|n| *n <= LARGEST).map(|n| n as usize);
        let head_dim = self.dim("attention.key_length")?.or(derived);
        let head_dim = head_dim.ok_or_else(|| self.missing("attention.key_length"))?;
        match self.dim("attention.value_length")? {
            Some(n) if n != head_dim => {
                let expected = format!("the same as key_length, {head_dim}");
                Err(self.wrong("attention.value_length", expected, n.to_string()))
            }
            _ => Ok(head_dim),
        }
    }

    /// Inner width of experts: the header's, else the inputs of the down projection.
    fn ff(&self, key: &str, down: &str) -> Result<usize, GgufError> {
        let tensor = self.0.tensor(&format!("blk.0.{down}.weight"));
        let derived = tensor.map(|t| t.ne[0]).filter(|n| *n <= LARGEST).map(|n| n as usize);
        self.uniform(key)?.or(derived).ok_or_else(|| self.missing(key))
    }

    /// Three or four sections; the fourth is 0 where a converter left it out.
    fn rope_sections(&self) -> Result<[u32; 4], GgufError> {
        let key = "rope.dimension_sections";
        let list = self.0.u64_list(&full(key))?.ok_or_else(|| self.missing(key))?;
        let narrow: Option<Vec<u32>> = list.iter().map(|&n| u32::try_from(n).ok()).collect();
        match narrow.as_deref() {
            Some(&[t, h, w]) => Ok([t, h, w, 0]),
            Some(&[t, h, w, extra]) => Ok([t, h, w, extra]),
            _ => {
                let shown = &list[..list.len().min(8)];
                let found = format!("{} numbers, {shown:?}", list.len());
                Err(self.wrong(key, "3 or 4 numbers".to_owned(), found))
            }
        }
    }

    fn need(&self, key: &str) -> Result<usize, GgufError> {
        self.dim(key)?.ok_or_else(|| self.missing(key))
    }

    /// A dimension given once.
    fn dim(&self, key: &str) -> Result<Option<usize>, GgufError> {
        match self.0.u64(&full(key))? {
            None => Ok(None),
            Some(n @ 1..=LARGEST) => Ok(Some(n as usize)),
            Some(n) => Err(self.wrong(key, format!("1 to {LARGEST}"), n.to_string())),
        }
    }

    /// A dimension given once or for each layer; layers without the thing may say 0.
    fn uniform(&self, key: &str) -> Result<Option<usize>, GgufError> {
        let Some(list) = self.0.u64_list(&full(key))? else { return Ok(None) };
        let largest = list.iter().copied().max().unwrap_or(0);
        if !(1..=LARGEST).contains(&largest) {
            return Err(self.wrong(key, format!("1 to {LARGEST}"), largest.to_string()));
        }
        match list.iter().find(|n| **n != 0 && **n != largest) {
            None => Ok(Some(largest as usize)),
            Some(other) => {
                let found = format!("{other} in one and {largest} in another");
                Err(self.wrong(key, "the same in all layers".to_owned(), found))
            }
        }
    }

    fn positive(&self, key: &str) -> Result<f32, GgufError> {
        if self.0.get(&full(key)).is_none() {
            return Err(self.missing(key));
        }
        match finite(self.0, key, 0.0)? {
            x if x > 0.0 => Ok(x),
            x => Err(self.wrong(key, "a positive number".to_owned(), x.to_string())),
        }
    }

    fn missing(&self, key: &str) -> GgufError {
        self.0.key_error(&full(key), "a value: it cannot be guessed", "no such key", DAMAGED_HEADER)
    }

    fn wrong(&self, key: &str, expected: String, found: String) -> GgufError {
        self.0.key_error(&full(key), expected, found, RECONVERT)
    }
}

fn full(key: &str) -> String {
    format!("{ARCHITECTURE}.{key}")
}

/// A token without an embedding could be encoded but not run.
fn check_vocabulary(gguf: &Gguf, n_vocab: usize) -> Result<(), GgufError> {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    match gguf.str_list(TOKENS)?.map(StrArray::len) {
        Some(n) if n > n_vocab => {
            let expected = format!("at most {n_vocab} tokens, the rows of the embedding table");
            Err(gguf.key_error(TOKENS, expected, n.to_string(), RECONVERT))
        }
        _ => Ok(()),
    }
}
