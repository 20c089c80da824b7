//! A sound file of the test model, and ways to change it.

use pantheon::gguf::{Blob, Gguf, GgufError, Value, Writer};
use pantheon::quant::GgmlType;
use pantheon::weights::{BindError, Bound, FileShape, Form, LayerSet};

use crate::model::{BINDINGS, SHAPE, Small, SmallWeights, contents};

/// A tensor to be written.
#[derive(Clone)]
pub(crate) struct TensorData {
    pub(crate) name: String,
    pub(crate) ne: Vec<u64>,
    pub(crate) ty: GgmlType,
    pub(crate) data: Vec<u8>,
}

/// Keys and tensors of a file, before it is written.
#[derive(Clone)]
pub(crate) struct ModelFile {
    pub(crate) keys: Vec<(String, Value)>,
    pub(crate) tensors: Vec<TensorData>,
}

pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Values that differ from tensor to tensor and from place to place.
fn values(name: &str, n: u64) -> Vec<f32> {
    let seed = name.bytes().fold(7u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    let noise = (0..n as u32).map(|i| {
        let hash = seed.wrapping_add(i).wrapping_mul(2_654_435_769);
        (hash >> 8) as f32 / (1 << 24) as f32 - 0.5
    });
    match name {
        _ if name.ends_with("norm.weight") => noise.map(|x| 1.0 + x / 4.0).collect(),
        _ if name.ends_with("ssm_a") => noise.map(|x| x - 1.0).collect(),
        _ => noise.collect(),
    }
}

impl ModelFile {
    /// A plain conversion of the test model, all in f32.
    pub(crate) fn plain() -> Self {
        let mut file = Self { keys: keys(), tensors: Vec::new() };
        for binding in BINDINGS {
            let layers: &[usize] = match binding.layers {
                LayerSet::Global => &[0],
                LayerSet::Gdn => &[0, 1, 2],
                LayerSet::Attention => &[3],
                LayerSet::Every => &[0, 1, 2, 3],
            };
            for layer in layers {
                file.add(&binding.name.replace("{}", &layer.to_string()), binding.shape);
            }
        }
        file
    }

    /// Adds a tensor of f32 values made from its name.
    pub(crate) fn add(&mut self, name: &str, ne: &[u64]) {
        let data = values(name, ne.iter().product());
        self.add_values(name, ne, &data);
    }

    pub(crate) fn add_values(&mut self, name: &str, ne: &[u64], data: &[f32]) {
        let tensor = TensorData {
            name: name.to_owned(),
            ne: ne.to_vec(),
            ty: GgmlType::F32,
            data: bytes_of(data),
        };
        self.tensors.push(tensor);
    }

    /// Sets a key; without a dot at its start, one of the architecture.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        let key = full(key);
        let value = value.into();
        match self.keys.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key, value)),
        }
        self
    }

    pub(crate) fn unset(&mut self, key: &str) -> &mut Self {
        let key = full(key);
        let before = self.keys.len();
        self.keys.retain(|(k, _)| *k != key);
        assert_eq!(self.keys.len() + 1, before, "{key} was there");
        self
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut TensorData {
        self.tensors.iter_mut().find(|t| t.name == name).expect("a tensor of the file")
    }

    pub(crate) fn remove(&mut self, name: &str) -> TensorData {
        let at = self.tensors.iter().position(|t| t.name == name).expect("a tensor of the file");
        self.tensors.remove(at)
    }

    pub(crate) fn open(&self) -> Gguf {
        let mut writer = Writer::new();
        for (key, value) in &self.keys {
            writer.key(key, value.clone());
        }
        for t in &self.tensors {
            writer.tensor(&t.name, &t.ne, t.ty).expect("a sound tensor");
        }
        let mut bytes = Vec::new();
        let mut data = self.tensors.iter().map(|t| &t.data);
        let written = writer.write(&mut bytes, |_, to| to.write_all(data.next().expect("as many")));
        written.expect("data as long as its shape says");
        Gguf::from_blob("small.gguf", &Blob::from(bytes)).expect("a sound container")
    }

    pub(crate) fn shape(&self) -> Result<FileShape, GgufError> {
        FileShape::read(&self.open())
    }

    pub(crate) fn bind(&self) -> Result<Bound<SmallWeights>, BindError> {
        pantheon::weights::bind::<Small>(&self.open())
    }

    /// The error of reading its shape.
    #[track_caller]
    pub(crate) fn shape_refusal(&self, expected: &[&str]) {
        says(&self.shape().expect_err("the file must be refused").to_string(), expected);
    }

    /// The error of binding it.
    #[track_caller]
    pub(crate) fn bind_refusal(&self, expected: &[&str]) {
        says(&self.bind().expect_err("the file must be refused").to_string(), expected);
    }

    /// It has the shape and the weights of the plain file, without a warning.
    #[track_caller]
    pub(crate) fn is_like_plain(&self) {
        let shape = self.shape().expect("a shape");
        assert_eq!(shape.diff(&SHAPE), []);
        let bound = self.bind().expect("weights");
        let plain = Self::plain().bind().expect("the plain file binds");
        assert!(contents(&bound.weights) == contents(&plain.weights), "other weights");
        let warnings: Vec<_> = shape.warnings.iter().chain(&bound.warnings).collect();
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[track_caller]
pub(crate) fn says(text: &str, expected: &[&str]) {
    expected.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text:?}"));
}

fn full(key: &str) -> String {
    match key.starts_with("general.") || key.starts_with("tokenizer.") {
        true => key.to_owned(),
        false => format!("qwen35moe.{key}"),
    }
}

fn keys() -> Vec<(String, Value)> {
    let mut file = ModelFile { keys: Vec::new(), tensors: Vec::new() };
    file.set("general.architecture", "qwen35moe").set("general.type", "model");
    file.set("block_count", 4u32).set("context_length", 512u32);
    file.set("embedding_length", 64u32).set("full_attention_interval", 4u32);
    file.set("attention.head_count", 2u32).set("attention.head_count_kv", 1u32);
    file.set("attention.key_length", 32u32).set("attention.value_length", 32u32);
    file.set("attention.layer_norm_rms_epsilon", 1e-6f32);
    file.set("rope.dimension_count", 8u32).set("rope.freq_base", 1e7f32);
    file.set("rope.dimension_sections", vec![2i32, 1, 1, 0]);
    file.set("expert_count", 6u32).set("expert_used_count", 2u32);
    file.set("expert_feed_forward_length", 24u32);
    file.set("expert_shared_feed_forward_length", 40u32);
    file.set("ssm.conv_kernel", 3u32).set("ssm.state_size", 16u32);
    file.set("ssm.group_count", 2u32).set("ssm.time_step_rank", 4u32);
    file.set("ssm.inner_size", 64u32);
    file.keys
}

/// The form of every row, for tests that go through the table.
pub(crate) fn vectors() -> impl Iterator<Item = &'static str> {
    BINDINGS.iter().filter(|b| b.form == Form::Vector).map(|b| b.name)
}
