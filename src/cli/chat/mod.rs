//! `pantheon chat`: a conversation.

mod command;
mod transcript;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::answer::{self, Finish, Limit, Reasoning, Rules, Timings};
use super::args::{ComputeArgs, ModelArgs, OnOff, PreArgs, SamplingArgs, Seed, whole};
use super::screen::Screen;
use super::session::Session;
use super::{chain, context, interrupt, load, output, prompt, sampler, usage};
use crate::chat::{ChatTemplate, Message};
use crate::engine::EngineOptions;
use crate::gguf::{Gguf, Value};
use crate::state::KvFormat;
use command::Command;
use transcript::Transcript;

const EXAMPLES: &str = "\
Examples:
  pantheon chat
  pantheon chat -m model.gguf --ctx 32768 --system \"Answer briefly.\"
  pantheon chat -m model.gguf --think off --temp 0.7

A line that ends with \\ goes on in the next one. /help lists the commands.
Ctrl-C stops an answer.";

/// Hold a conversation, with line editing and history
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// System message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Let the model think before it answers [default: as the template says; off for the demo
    /// model]
    #[arg(long, value_name = "on|off")]
    think: Option<OnOff>,

    /// Tokens to look back on; 0: as many as the model was trained for [default: $QWEN35_MAX_SEQ,
    /// else 4096]
    #[arg(short, long, value_name = "N", visible_alias = "ctx-size", value_parser = whole(0..))]
    ctx: Option<usize>,

    /// Most tokens of one answer; -1: no limit, -2: until the context is full
    #[arg(short, long, value_name = "N", default_value = "-2", visible_alias = "predict")]
    n_predict: Limit,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    pre: PreArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let gguf = args.model.open()?;
    let tokenizer = load::tokenizer(&gguf, &args.pre)?;
    let Some(template) = ChatTemplate::from_gguf(&gguf, &tokenizer)? else {
        return usage(format!(
            "{}: the file has no chat template (`tokenizer.chat_template`); \
             `pantheon generate --raw` continues plain text",
            gguf.name()
        ));
    };
    let roles = roles(&gguf);
    let base =
        EngineOptions { ctx: context::resolve(args.ctx, &gguf)?, ..EngineOptions::default() };
    let engine = load::engine(gguf, &args.compute.options(KvFormat::F16, base))?;
    let session = Session::new(engine, tokenizer);
    // Made here for its seed, and because a wrong flag is better found now than after the first
    // question.
    let seed = sampler::sampler(&args.sampling, &session, false)?.seed();
    let mut chat = Chat {
        session,
        template,
        think: args.think.or(args.model.is_demo().then_some(OnOff::Off)),
        limit: args.n_predict,
        sampling: args.sampling.clone(),
        seed,
        transcript: Transcript { system: args.system.clone(), messages: Vec::new() },
        roles,
        answers: 0,
        last: Timings::default(),
    };
    output::note(format_args!("seed {}; /help lists the commands", chat.seed));
    chat.talk()
}

/// The roles that the file's template knows: tools are not for all of them.
fn roles(gguf: &Gguf) -> Vec<&'static str> {
    let mut templates =
        gguf.metadata().filter(|(key, _)| key.starts_with("tokenizer.chat_template"));
    let names_tool = |text: &str| ["'tool'", "\"tool\""].iter().any(|role| text.contains(role));
    let tool = templates.any(|(_, value)| matches!(value, Value::Str(text) if names_tool(text)));
    ["system", "user", "assistant"].into_iter().chain(tool.then_some("tool")).collect()
}

/// A conversation under way.
struct Chat {
    session: Session,
    template: ChatTemplate,
    think: Option<OnOff>,
    limit: Limit,
    sampling: SamplingArgs,
    seed: u64,
    transcript: Transcript,
    /// Roles that the template knows.
    roles: Vec<&'static str>,
    /// Answers so far: each has random numbers of its own.
    answers: u64,
    last: Timings,
}

impl Chat {
    /// Reads lines and answers them until the user ends it.
    fn talk(&mut self) -> anyhow::Result<()> {
        let mut editor = DefaultEditor::new()?;
        // After the editor: it takes the signal for itself when it is made.
        interrupt::listen();
        while let Some(line) = read(&mut editor)? {
            // A command or an answer that fails does not end the conversation; a reader that went
            // away does.
            let result = match Command::parse(&line) {
                None => self.answer(Command::message(&line)),
                Some(Ok(Command::Quit)) => break,
                Some(Ok(command)) => self.obey(command),
                Some(Err(problem)) => Err(anyhow::anyhow!(problem)),
            };
            match result {
                Err(error) if super::is_broken_pipe(&error) => return Err(error),
                Err(error) => output::note(format_args!("error: {}", chain(&error))),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Answers a message of the user.
    fn answer(&mut self, text: &str) -> anyhow::Result<()> {
        self.transcript.messages.push(Message::new("user", text));
        let answered = self.try_answer();
        if !matches!(answered, Ok(true)) {
            // A question without an answer would be read again with the next one.
            self.transcript.messages.pop();
        }
        answered.map(|_| ())
    }

    /// Answers the last message; `false` if Ctrl-C came before the answer began.
    fn try_answer(&mut self) -> anyhow::Result<bool> {
        interrupt::clear();
        let messages = self.transcript.all();
        let tokenizer = self.session.tokenizer();
        let ctx = self.session.engine().options().ctx;
        let prompt = prompt::render(&self.template, tokenizer, &messages, self.think, ctx)?;
        let thinking = prompt.reasoning == Reasoning::Opened;
        let seed = Some(Seed(Some(self.seed.wrapping_add(self.answers))));
        let sampling = SamplingArgs { seed, ..self.sampling.clone() };
        let mut sampler = sampler::sampler(&sampling, &self.session, thinking)?;
        let rules =
            Rules { limit: self.limit, stops: &[], ignore_eos: false, reasoning: prompt.reasoning };
        let mut screen = Screen::new(true);
        let answer =
            answer::answer(&mut self.session, &prompt.ids, &mut sampler, &rules, |delta| {
                screen.show(delta)
            })?;
        screen.finish()?;
        // A request that came too late must not end the program at the next prompt.
        interrupt::clear();
        self.last = answer.timings;
        match answer.finish {
            Finish::Stop => {}
            Finish::Length => output::note(format_args!("(the answer reached its limit)")),
            Finish::Interrupted => output::note(format_args!("(stopped)")),
        }
        if answer.ids.is_empty() {
            return Ok(false);
        }
        self.answers += 1;
        let reasoning_content = (!answer.reasoning.is_empty()).then_some(answer.reasoning);
        let message = Message { reasoning_content, ..Message::new("assistant", answer.text) };
        self.transcript.messages.push(message);
        Ok(true)
    }

    fn obey(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            Command::Help => output::note(format_args!("{}", command::HELP)),
            Command::Reset => {
                self.transcript.messages.clear();
                self.session.reset();
                output::note(format_args!("the conversation starts anew"));
            }
            Command::System(None) => match &self.transcript.system {
                Some(system) => output::note(format_args!("{system}")),
                None => output::note(format_args!("there is no system message")),
            },
            Command::System(text) => {
                self.transcript.system = text.filter(|text| text != "-");
                output::note(format_args!("the system message has changed"));
            }
            Command::Save(path) => {
                self.transcript.save(&path)?;
                output::note(format_args!("saved {} messages", self.transcript.messages.len()));
            }
            Command::Load(path) => {
                self.transcript = Transcript::load(&path, &self.roles)?;
                output::note(format_args!("loaded {} messages", self.transcript.messages.len()));
            }
            Command::Stats => self.show_stats(),
            Command::Quit => {}
        }
        Ok(())
    }

    fn show_stats(&self) {
        output::note(format_args!(
            "{} messages, {} tokens read, a context of {}, seed {}",
            self.transcript.messages.len(),
            self.session.position(),
            self.session.engine().options().ctx,
            self.seed
        ));
        output::note(format_args!("last answer: {}", self.last.summary(&self.session)));
    }
}

/// The next line that is not blank; `None` at the end of the input. A line that ends with `\` goes
/// on.
fn read(editor: &mut DefaultEditor) -> anyhow::Result<Option<String>> {
    let mut text = String::new();
    loop {
        match editor.readline(if text.is_empty() { "> " } else { ". " }) {
            Ok(line) => {
                if let Some(line) = line.strip_suffix('\\') {
                    text.push_str(line);
                    text.push('\n');
                    continue;
                }
                text.push_str(&line);
                if !text.trim().is_empty() {
                    // Without a history, only the arrow keys know less.
                    let _ = editor.add_history_entry(&text);
                    return Ok(Some(text));
                }
                text.clear();
            }
            Err(ReadlineError::Interrupted) => {
                text.clear();
                output::note(format_args!("(/quit or Ctrl-D ends the conversation)"));
            }
            Err(ReadlineError::Eof) => return Ok((!text.trim().is_empty()).then_some(text)),
            Err(error) => return Err(error.into()),
        }
    }
}
