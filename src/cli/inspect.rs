//! `pantheon inspect`: what is in a GGUF file, and which compiled-in model it fits.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::output;
use super::shape_match::ShapeMatch;
use super::table::{Facts, Table};
use crate::gguf::{Array, Gguf, Tensor, Value};
use crate::memory::Bytes;
use crate::quant::GgmlType;

const EXAMPLES: &str = "\
Examples:
  pantheon inspect model.gguf
  pantheon inspect model.gguf --tensors
  pantheon inspect model.gguf --json | jq .types";

/// Arrays up to this length are printed whole as JSON.
const WHOLE_ARRAY: usize = 64;

/// Show what is in a GGUF file: metadata, tensor types, shape and the compiled-in model it fits
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// GGUF file; of several parts, the first [default: the built-in demo model]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// List every tensor
    #[arg(long)]
    tensors: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let gguf = super::args::ModelArgs { model: args.file.clone() }.open()?;
    let fit = ShapeMatch::of(&gguf);
    if args.json {
        return output::print_json(&to_json(&gguf, &fit, args.tensors));
    }
    Ok(output::print(&to_text(&gguf, &fit, args.tensors))?)
}

/// What tensors of one type amount to.
#[derive(Default)]
struct Share {
    tensors: usize,
    values: u64,
    bytes: u64,
}

impl Share {
    fn add(&mut self, tensor: &Tensor) {
        self.tensors += 1;
        self.values += tensor.elements();
        self.bytes += tensor.data.len() as u64;
    }

    fn bits(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.values.max(1) as f64
    }
}

/// Types by falling bytes, and the total.
fn shares(gguf: &Gguf) -> (Vec<(GgmlType, Share)>, Share) {
    let mut types: BTreeMap<GgmlType, Share> = BTreeMap::new();
    let mut total = Share::default();
    for tensor in gguf.tensors() {
        types.entry(tensor.ty).or_default().add(tensor);
        total.add(tensor);
    }
    let mut types: Vec<_> = types.into_iter().collect();
    types.sort_by_key(|(_, share)| std::cmp::Reverse(share.bytes));
    (types, total)
}

fn to_text(gguf: &Gguf, fit: &ShapeMatch, tensors: bool) -> String {
    let mut text = String::new();
    let mut facts = Facts::default();
    facts.add("file", gguf.name());
    facts.add("format", format!("GGUF version {}", gguf.version()));
    facts.add("size", Bytes(gguf.file_bytes()));
    if gguf.parts().len() > 1 {
        facts.add("parts", gguf.parts().len());
    }
    text += &format!("{facts}\nmetadata\n");
    let mut table = Table::new(&["", "", ""]);
    for (key, value) in gguf.metadata() {
        table.row([key.to_owned(), value.type_name(), value.to_string()]);
    }
    text += &indented(&table.to_string());
    text += "\ntensors\n";
    let (types, total) = shares(gguf);
    let mut table = Table::new(&["type", ">tensors", ">values", ">bytes", ">bits/value"]);
    let line = |name: &str, share: &Share| {
        let (count, bits) = (share.tensors.to_string(), format!("{:.2}", share.bits()));
        [name.to_owned(), count, share.values.to_string(), Bytes(share.bytes).to_string(), bits]
    };
    types.iter().for_each(|(ty, share)| table.row(line(ty.name(), share)));
    table.row(line("all", &total));
    text += &indented(&table.to_string());
    if tensors {
        text += &format!("\n{}", indented(&tensor_table(gguf).to_string()));
    }
    text += &format!("\nshape\n{}", indented(&fit.to_string()));
    text
}

fn tensor_table(gguf: &Gguf) -> Table {
    let mut table = Table::new(&["tensor", "type", "shape", ">bytes", ">offset"]);
    for tensor in gguf.tensors() {
        let part = if gguf.parts().len() > 1 { format!("{}:", tensor.part) } else { String::new() };
        table.row([
            tensor.name.clone(),
            tensor.ty.name().to_owned(),
            format!("{:?}", tensor.ne),
            tensor.data.len().to_string(),
            format!("{part}{}", tensor.offset),
        ]);
    }
    table
}

/// Every line that is not empty, moved right.
fn indented(text: &str) -> String {
    text.lines().filter(|line| !line.is_empty()).map(|line| format!("  {line}\n")).collect()
}

fn to_json(gguf: &Gguf, fit: &ShapeMatch, tensors: bool) -> Json {
    let metadata: Map<String, Json> =
        gguf.metadata().map(|(key, value)| (key.to_owned(), value_json(value))).collect();
    let (types, total) = shares(gguf);
    let share = |share: &Share| {
        json!({
            "tensors": share.tensors, "values": share.values, "bytes": share.bytes,
            "bits_per_value": share.bits()
        })
    };
    let types: Map<String, Json> =
        types.iter().map(|(ty, s)| (ty.name().to_owned(), share(s))).collect();
    let mut object = json!({
        "file": gguf.name(),
        "version": gguf.version(),
        "bytes": gguf.file_bytes(),
        "parts": gguf.parts(),
        "metadata": metadata,
        "types": types,
        "total": share(&total),
    });
    if let Json::Object(object) = &mut object {
        object.extend(fit.to_json());
        if tensors {
            let list = gguf.tensors().iter().map(|t| {
                json!({
                    "name": t.name, "type": t.ty.name(), "shape": t.ne, "bytes": t.data.len(),
                    "part": t.part, "offset": t.offset
                })
            });
            object.insert("tensors".to_owned(), list.collect());
        }
    }
    object
}

fn value_json(value: &Value) -> Json {
    match value {
        Value::Array(array) if array.len() > WHOLE_ARRAY => {
            let first: Vec<Json> = array.iter().take(8).map(|v| value_json(&v)).collect();
            json!({ "array_of": array.item_type(), "length": array.len(), "first": first })
        }
        Value::Array(array) => array_json(array),
        Value::Bool(x) => json!(x),
        Value::Str(x) => json!(x),
        Value::F32(x) => json!(x),
        Value::F64(x) => json!(x),
        integer => integer.as_u64().map_or_else(|| json!(integer.as_i64()), |x| json!(x)),
    }
}

fn array_json(array: &Array) -> Json {
    array.iter().map(|v| value_json(&v)).collect()
}
