//! Chat templates that try to use up memory, every way there is to make something.

use std::time::{Duration, Instant};

use pantheon::chat::{ChatError, ChatTemplate, Message, RenderOptions};
use pantheon::tokenizer::{Tokenizer, Vocabulary};

use crate::measured;

/// Most bytes that a rendering may add to the process.
const MOST: u64 = 512 << 20;

fn tokenizer() -> Tokenizer {
    let plain = Vocabulary { tokens: vec!["a".into()], ..Vocabulary::default() };
    Tokenizer::new(&plain, None).unwrap()
}

fn render(source: &str) -> Result<String, ChatError> {
    let template = ChatTemplate::new(source, &tokenizer())?;
    let chat = [Message::new("user", "x")];
    Ok(template.render(&chat, &[], &RenderOptions::default())?.text().to_owned())
}

/// A template that applies `step` to `ns.x` again and again.
fn repeated(start: &str, step: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range(90000) %}}{{% set ns.x = {step} %}}\
         {{% endfor %}}"
    )
}

/// Steps that make a text longer.
const TEXTS: &[&str] = &[
    "ns.x ~ ns.x",
    "ns.x + ns.x",
    "ns.x * 2",
    "2 * ns.x",
    "(ns.x + 'b')[:] + ns.x",
    "ns.x|join('aaaaaaaa')",
    "ns.x|replace('a', 'aa')",
    "ns.x|replace('', 'a')",
    "[ns.x, ns.x]|join",
    "[ns.x, ns.x]|string",
    "[ns.x, ns.x]|list|string",
    "'%s%s'|format(ns.x, ns.x)",
    "'%(k)s%(k)s'|format({'k': ns.x})",
    "'{0}{0}'.format(ns.x)",
    "'{a}{a}'.format(a=ns.x)",
    "ns.x.replace('a', 'aa')",
    "'ab'.join([ns.x, ns.x])",
    "ns.x.join(['', '', ''])",
    "[ns.x, '\\t\\t\\t\\t']|tojson",
    "ns.x|pprint ~ ns.x",
    "(ns.x ~ '\\n')|indent(1, true) ~ ns.x",
    "(ns.x ~ '<')|escape ~ ns.x",
    "(ns.x ~ '<')|e ~ ns.x",
    "ns.x|upper ~ ns.x|lower",
    "ns.x|title ~ ns.x|capitalize",
    "ns.x|trim ~ ns.x|safe",
    "ns.x|reverse ~ ns.x[::-1]",
    "ns.x.upper() ~ ns.x.lower() ~ ns.x.title() ~ ns.x.capitalize()",
    "ns.x.strip() ~ ns.x.lstrip() ~ ns.x.rstrip()",
    "ns.x|default('') ~ ns.x|d('')",
];

/// Steps that make a list longer or deeper.
const LISTS: &[&str] = &[
    "ns.x + ns.x",
    "ns.x * 2",
    "[ns.x, ns.x]",
    "[ns.x]",
    "{'a': ns.x, 'b': ns.x}",
    "{'a': ns.x}",
    "dict(a=ns.x, b=ns.x)",
    "(ns.x|chain(ns.x))",
    "(ns.x|chain(ns.x))|list",
    "(ns.x + ns.x)|sort",
    "(ns.x + ns.x)|map('string')|list",
    "(ns.x + ns.x)|select|list",
    "(ns.x + ns.x)|reject('none')|list",
    "(ns.x + ns.x)|reverse|list",
    "(ns.x + ns.x)[::-1]",
    "(ns.x + ns.x)[0:]",
    "ns.x|batch(2, 0)|list + ns.x",
    "ns.x|slice(2)|list + ns.x",
    "ns.x|zip(ns.x)|list",
    "ns.x|groupby('a')|list + ns.x",
    "[ns.x|items|list, ns.x]",
    "(ns.x|string).split('') + ns.x",
    "((ns.x|string) * 2)|list",
    "((ns.x|string) ~ '\\n\\n\\n')|lines + ns.x",
    "((ns.x|string) ~ '\\n\\n\\n').splitlines() + ns.x",
    "(ns.x|string)|split('') + ns.x",
    "[loop, ns.x]",
    "[ns, ns]",
    "ns",
    "[ns.x, caller]",
];

/// What grows without end, by what it is made with.
fn growing() -> Vec<String> {
    let texts = TEXTS.iter().map(|step| repeated("'ab'", step));
    let lists = LISTS.iter().map(|step| repeated("[1, 2]", step));
    texts.chain(lists).collect()
}

/// What is large at once.
const LARGE: &[&str] = &[
    "{{ 'a' * 100000000 }}",
    "{{ ('a' * 100000000) ~ ('a' * 100000000) }}",
    "{% if false %}{{ ('a' * 30000) * 30000 }}{% endif %}",
    "{{ [1] * 100000000000 }}",
    "{% set x = [1] %}{{ (x * 100000000000)|list }}",
    "{% set x = [1] %}{% set a, b = x * 100000000000 %}",
    "{% set x = [1] %}{{ dict(*(x * 100000000000)) }}",
    "{{ [1]|batch(100000000000)|list }}",
    "{{ [1]|batch(100000000000, 1)|list }}",
    "{{ [1]|slice(100000000000)|list }}",
    "{{ 'a\nb'|indent(100000000000) }}",
    "{{ 'a\nb'|indent(width=100000000000) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '%01000000000d'|format(1) }}",
    "{{ '%.1000000000f'|format(1.5) }}",
    "{{ '%.70000e'|format(1.5) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:}>1000000000}'.format('a') }}",
    "{{ '{:.1000000000}'.format(1.5) }}",
    "{{ '{:01000000000,}'.format(15) }}",
    "{% set a = '%c%A%B' %}{{ strftime_now(a * 2000000) }}",
    "{% set a = 'a' %}{{ raise_exception(a * 60000000) }}",
    "{% set a %}{% for i in range(90000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
     {% for i in range(90000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}\
     {% endset %}",
    "{% filter upper %}{% for i in range(90000) %}{{ 'a' * 10000 }}{% endfor %}{% endfilter %}",
    "{% macro m() %}{% for i in range(90000) %}{{ 'a' * 10000 }}{% endfor %}{% endmacro %}\
     {% set a = m() %}",
    "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}\
     {% for i in range(90000) %}{% call m() %}{{ 'a' * 10000 }}{% endcall %}{% endfor %}",
    "{% for i in range(90000) %}{% for j in range(90000) %}{% macro m() %}{{ i }}{{ j }}\
     {% endmacro %}{% endfor %}{% endfor %}",
    "{% autoescape true %}{% for i in range(90000) %}{{ '<' * 10000 }}{% endfor %}\
     {% endautoescape %}",
    "{% for i in range(90000) recursive %}{{ loop(range(90000)) }}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.n = ns %}{{ ns }}{{ ns == ns }}",
    "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}\
     {{ a }}{{ a == b }}{{ [a, b]|tojson }}",
    "{% for x in range(90000) %}{% for y in range(90000) %}{{ debug() }}{% endfor %}{% endfor %}",
    "{{ 'ab'.count('') }}",
];

/// The same from a long text `s` and a list `n` that has it three times.
const OF_LONG: &[&str] = &[
    "{{ n|upper }}{{ n|lower }}{{ n|title }}{{ n|capitalize }}",
    "{{ n|map('upper')|list|length }}",
    "{{ (n * 30)|map('upper')|list|length }}",
    "{{ (n * 30)|map('list')|list|length }}",
    "{{ (n * 30)|string|length }}",
    "{{ (n * 30)|join|length }}",
    "{{ (n * 30)|tojson|length }}",
    "{{ (n * 30)|tojson(indent=4)|length }}",
    "{{ (n * 30)|pprint|length }}",
    "{{ (n * 30)|unique|list|length }}",
    "{{ (n * 30)|trim|length }}",
    "{{ (n * 30)|replace('a', 'b')|length }}",
    "{{ (n * 30)|escape|length }}",
    "{{ (n * 30) in s }}",
    "{{ (n * 30) is in(s) }}{{ (n * 30) is startingwith(s) }}{{ (n * 30) is lower }}",
    "{{ 1 < 2 < 3 }}{{ s|list|length }}",
    "{{ s|sort|length }}",
    "{{ s|map('upper')|list|length }}",
    "{{ s|batch(1)|list|length }}",
    "{{ s|slice(20000000)|list|length }}",
    "{{ s|unique|list|length }}",
    "{{ s|split('')|length }}{{ s.split('')|length }}",
    "{{ s|replace('', s) }}{{ s.replace('', s) }}",
    "{{ s|replace('a', s) }}{{ s.replace('a', s) }}",
    "{{ s|join(s) }}{{ s.join(s) }}",
    "{{ s|dictsort }}{{ s|items }}",
    "{{ {s: s, 'b': s}|tojson|length }}",
    "{{ {s: s, 'b': s}|dictsort|string|length }}",
    "{{ {s: s, 'b': s}|items|list|string|length }}{{ {s: s}.items()|list|length }}",
    "{% set f = '%s' %}{{ (f * 1000)|format(*([s] * 1000)) }}",
    "{% set f = '{0}' %}{{ (f * 1000).format(s) }}{{ (f * 1000).format(n) }}",
    "{{ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s }}",
    "{{ s + s + s + s + s + s + s + s + s + s + s + s + s + s + s + s }}",
    "{% for i in s %}{% endfor %}{{ s[::-1]|length }}{{ s[::2]|length }}",
];

/// All that is large at once.
fn large() -> Vec<String> {
    let long = "{% set a = 'a' %}{% set s = a * 20000000 %}{% set n = [s] * 3 %}";
    let many = "{% set a = 'a ' %}{% set s = a * 9000000 %}";
    let of_many = ["{{ s|split|length }}{{ s.split()|length }}", "{{ s|title|length }}"];
    let mut sources: Vec<String> = LARGE.iter().map(|&source| source.to_owned()).collect();
    sources.extend(OF_LONG.iter().map(|source| format!("{long}{source}")));
    sources.extend(of_many.iter().map(|source| format!("{many}{source}")));
    sources
}

/// What is deep or large before it is rendered.
fn compiled() -> Vec<String> {
    vec![
        format!("{{{{ 1{} }}}}", "+1".repeat(300_000)),
        format!("{{{{ 'a'{} }}}}", "~'aaaaaaaaaaaaaaaa'".repeat(50_000)),
        format!("{{{{ 1{} }}}}", "|abs".repeat(200_000)),
        format!("{{{{ x{} }}}}", ".x".repeat(400_000)),
        format!("{{{{ x{} }}}}", "[0]".repeat(300_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(200_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(200_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(200_000), ")".repeat(200_000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(200_000), "]".repeat(200_000)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(80_000)),
        format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(80_000)),
        format!("{}{}", "{% if x %}".repeat(40_000), "{% endif %}".repeat(40_000)),
        "{{ 'a' * 60000 }}".repeat(50_000),
        "x".repeat(2 << 20),
        // Just short of what is refused.
        format!("{{{{ 1{} }}}}", "+1".repeat(990)),
        format!("{{{{ x{} }}}}", ".x".repeat(990)),
        format!("{{{{ 1{} }}}}", "|abs".repeat(990)),
        format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(500)),
        format!("{}{}", "{% if x %}".repeat(100), "{% endif %}".repeat(100)),
        "{% include 'default' %}".to_owned(),
        "{{ 1 in [1] in [[1]] }}".to_owned(),
    ]
}

#[test]
fn no_template_takes_more_memory_than_it_may() {
    let (mut refused, mut rendered, mut most) = (0, 0, 0);
    for source in growing().into_iter().chain(large()).chain(compiled()) {
        let shown: String = source.chars().take(300).collect();
        let start = Instant::now();
        let (result, grown) = measured(|| render(&source));
        assert!(grown < MOST, "{} MiB for {shown}", grown >> 20);
        assert!(start.elapsed() < Duration::from_secs(60), "{shown}");
        most = grown.max(most);
        match result {
            Ok(text) => {
                rendered += 1;
                assert!(text.len() <= 64 << 20, "{shown}");
            }
            Err(error) => {
                refused += 1;
                let error = error.to_string();
                assert!(error.len() < 20_000, "{shown}");
                assert!(error.contains("template"), "{error}: {shown}");
            }
        }
    }
    println!("{refused} refused, {rendered} rendered, {} MiB at most", most >> 20);
    assert!(refused > 80 && rendered > 5, "{refused} {rendered}");
}

#[test]
fn what_is_too_large_is_named_with_what_to_do() {
    let error = render(&repeated("'ab'", "ns.x ~ ns.x")).unwrap_err();
    assert!(matches!(error, ChatError::TooLarge { .. }), "{error:?}");
    let error = error.to_string();
    for words in ["`tokenizer.chat_template`", "64 MiB", "--raw"] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_templates_pass_around_stays_what_it_is() {
    let source = "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set ns = namespace(a=1) %}\
                  {% set same = ns|default(namespace()) %}{% set same.a = 2 %}{{ ns.a }}\
                  {{ (m|default(none))(3) }}{% for g in [{'k': 1}, {'k': 2}]|groupby('k') %}\
                  {{ g.grouper }}{{ g.list|length }}{{ g[0] }}{% endfor %}\
                  {% for a, b in {'x': [1], 'y': (2, 3)}.items() %}{{ a }}{{ b }}{% endfor %}\
                  {{ [3, 1, 2]|sort }}{{ 'abc'[::-1] }}{{ [1, 2, 3][-1] }}{{ [1] + [2] == [1, 2] }}\
                  {{ 2 * 'ab' }}{{ [0] * 2 }}{{ 6 * 7 }}{{ 1.5 * 2 }}{{ 'b' in 'abc' }}\
                  {{ 'x' not in ['x'] }}{{ range(3)|list }}{{ dict(*[{'q': 1}], r=2) }}";
    let expected = "2<3>111212x[1]y[2, 3][1, 2, 3]cba3Trueabab[0, 0]423.0TrueFalse[0, 1, 2]\
                    {\"q\": 1, \"r\": 2}";
    assert_eq!(render(source).unwrap(), expected);
}

#[test]
fn long_conversations_render() {
    // Every message is added to a list and to a text that grow.
    let source = "{% set ns = namespace(all=[], text='') %}{% for m in messages %}\
                  {% set ns.all = ns.all + [m] %}{% set ns.text = ns.text + m.content[:9] %}\
                  {% set parts = m.content.split('\n') %}{{ parts|join('\n')|trim }}{% endfor %}\
                  {% for m in ns.all[::-1] %}{{ m['role']|upper }}{{ loop.index0 }}{% endfor %}";
    let template = ChatTemplate::new(source, &tokenizer()).unwrap();
    let messages: Vec<Message> =
        (0..1500).map(|i| Message::new("user", format!("message {i}\n").repeat(60))).collect();
    let text = template.render(&messages, &[], &RenderOptions::default()).unwrap();
    assert!(text.text().contains("message 1499\nmessage 1499"));
    assert!(text.text().ends_with("USER1499"));
    // And one message as long as a file can be.
    let template = ChatTemplate::new(
        "{% set content = messages[0].content|trim %}{% if '</think>' in content %}\
         {% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}\
         {{- '<|im_start|>' + messages[0].role + '\n' + content + '<|im_end|>' }}",
        &tokenizer(),
    )
    .unwrap();
    let long = Message::new("user", "long text ".repeat((16 << 20) / 10));
    let text = template.render(&[long], &[], &RenderOptions::default()).unwrap();
    assert!(text.text().len() > 16_700_000);
}
