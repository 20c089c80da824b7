//! `pantheon generate`: one answer.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use super::answer::{self, Answer, Limit, Reasoning, Rules};
use super::args::{ComputeArgs, ModelArgs, OnOff, PreArgs, SamplingArgs, whole};
use super::prompt::{self, Prompt};
use super::screen::Screen;
use super::session::Session;
use super::{context, demo, interrupt, load, output, sampler, tokens_file, usage};
use crate::chat::{ChatTemplate, Message};
use crate::engine::EngineOptions;
use crate::state::KvFormat;
use crate::tokenizer::Tokenizer;

const EXAMPLES: &str = "\
Examples:
  pantheon generate                                       the built-in demo model tells a story
  pantheon generate -m model.gguf \"Why is the sky blue?\"
  pantheon generate -m model.gguf --think off -n 200 -f question.txt
  pantheon generate -m model.gguf --raw --temp 0 \"Once upon a time\"
  git diff | pantheon generate -m model.gguf --system \"Write a commit message.\" -
  pantheon generate -m model.gguf --json \"Hello\" | jq -r .text";

/// Generate an answer to a prompt
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The prompt; `-` reads stdin to its end. One that looks like an option, such as `-v is`,
    /// goes behind `--`
    #[arg(value_name = "PROMPT|-", conflicts_with_all = ["file", "tokens"])]
    prompt: Option<String>,

    #[command(flatten)]
    model: ModelArgs,

    /// Read the prompt from a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "tokens")]
    file: Option<PathBuf>,

    /// Read the prompt from a JSON list of token ids; no chat template
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["system", "think"])]
    tokens: Option<PathBuf>,

    /// Tokens to generate; -1: no limit, -2: until the context is full
    #[arg(short, long, value_name = "N", default_value = "-2", visible_alias = "predict")]
    n_predict: Limit,

    /// Tokens to look back on; 0: as many as the model was trained for [default: $QWEN35_MAX_SEQ,
    /// else 4096]
    #[arg(short, long, value_name = "N", visible_alias = "ctx-size", value_parser = whole(0..))]
    ctx: Option<usize>,

    /// Do not use the file's chat template: the model continues the prompt
    #[arg(long, conflicts_with_all = ["system", "think"])]
    raw: bool,

    /// System message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Let the model think before it answers [default: as the template says; off for the demo
    /// model]
    #[arg(long, value_name = "on|off")]
    think: Option<OnOff>,

    /// End before this text (can be given several times)
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,

    /// Run on through the tokens that end an answer
    #[arg(long)]
    ignore_eos: bool,

    /// Print one JSON object: prompt_ids, ids, text, reasoning, finish_reason, timings
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    pre: PreArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Where the prompt comes from.
enum Source {
    Ids(Vec<u32>),
    Text(String),
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.stop.iter().any(String::is_empty) {
        return usage("--stop: expected a text, found an empty one");
    }
    let source = source(args)?;
    interrupt::listen();
    let start = Instant::now();
    let gguf = args.model.open()?;
    let tokenizer = load::tokenizer(&gguf, &args.pre)?;
    let template = if args.raw { None } else { ChatTemplate::from_gguf(&gguf, &tokenizer)? };
    let ctx = context::resolve(args.ctx, &gguf)?;
    let prompt = prompt(args, &source, template.as_ref(), &tokenizer, ctx)?;
    let base = EngineOptions { ctx, ..EngineOptions::default() };
    let engine = load::engine(gguf, &args.compute.options(KvFormat::F16, base))?;
    let mut session = Session::new(engine, tokenizer);
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let thinking = prompt.reasoning == Reasoning::Opened;
    let mut sampler = sampler::sampler(&args.sampling, &session, thinking)?;
    let rules = Rules {
        limit: args.n_predict,
        stops: &args.stop,
        ignore_eos: args.ignore_eos,
        reasoning: prompt.reasoning,
    };
    let mut screen = Screen::new(!args.json);
    let answer = answer::answer(&mut session, &prompt.ids, &mut sampler, &rules, |delta| {
        screen.show(delta)
    })?;
    screen.finish()?;
    if args.json {
        output::print_json(&to_json(&prompt, &answer, load_ms))?;
    }
    output::note(format_args!(
        "{} | {} | seed {}",
        answer.timings.summary(&session),
        answer.finish.name(),
        sampler.seed()
    ));
    Ok(())
}

fn source(args: &Args) -> anyhow::Result<Source> {
    if let Some(path) = &args.tokens {
        return Ok(Source::Ids(tokens_file::read_ids(path)?));
    }
    let text = match (&args.prompt, &args.file) {
        (Some(dash), _) if dash == "-" => without_line_end(tokens_file::read_text("-".as_ref())?),
        (Some(text), _) => text.clone(),
        (None, Some(path)) => without_line_end(tokens_file::read_text(path)?),
        (None, None) if args.model.is_demo() => demo::PROMPT.to_owned(),
        (None, None) => {
            return usage(
                "no prompt: give it as an argument, as in `pantheon generate -m FILE \"Why?\"`, \
                 as a file with -f FILE, or through stdin with -",
            );
        }
    };
    if text.is_empty() {
        return usage("the prompt is empty: expected some text");
    }
    Ok(Source::Text(text))
}

/// Editors and `echo` end a text with a line end that nobody means.
fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

fn prompt(
    args: &Args,
    source: &Source,
    template: Option<&ChatTemplate>,
    tokenizer: &Tokenizer,
    ctx: usize,
) -> anyhow::Result<Prompt> {
    let (text, template) = match (source, template) {
        (Source::Ids(ids), _) => {
            tokenizer.check_prompt(ids)?;
            return Ok(Prompt { ids: ids.clone(), reasoning: Reasoning::None });
        }
        (Source::Text(_), None) if args.system.is_some() || args.think.is_some() => {
            return usage("--system and --think need a chat template, and the file has none");
        }
        (Source::Text(text), None) => return prompt::raw(tokenizer, text, ctx),
        (Source::Text(text), Some(template)) => (text, template),
    };
    let system = args.system.iter().map(|system| Message::new("system", system));
    let messages: Vec<Message> = system.chain([Message::new("user", text)]).collect();
    // The demo model is too small for its thoughts to be of use.
    let think = args.think.or(args.model.is_demo().then_some(OnOff::Off));
    prompt::render(template, tokenizer, &messages, think, ctx)
}

fn to_json(prompt: &Prompt, answer: &Answer, load_ms: f64) -> serde_json::Value {
    let timings = &answer.timings;
    let per_second = |n: usize, time: std::time::Duration| {
        let seconds = time.as_secs_f64();
        (n > 0 && seconds > 0.0).then(|| n as f64 / seconds)
    };
    json!({
        "prompt_ids": prompt.ids,
        "ids": answer.ids,
        "text": answer.text,
        "reasoning": (!answer.reasoning.is_empty()).then_some(&answer.reasoning),
        "finish_reason": answer.finish.name(),
        "timings": {
            "load_ms": load_ms,
            "prompt_n": timings.prompt,
            "prompt_ms": timings.prompt_time.as_secs_f64() * 1e3,
            "prompt_per_second": per_second(timings.prompt, timings.prompt_time),
            "predicted_n": timings.generated,
            "predicted_ms": timings.generated_time.as_secs_f64() * 1e3,
            "predicted_per_second": per_second(timings.generated, timings.generated_time),
        },
    })
}
