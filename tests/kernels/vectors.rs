//! Kernels over f32 vectors.

use pantheon::cpu::kernels::{DeltaArgs, Kernels, KvRows, PerToken};

use crate::support::{Noise, same_bits, tables};

/// Runs a kernel on every table; all results must have the scalar one's bits.
#[track_caller]
fn agree(what: &str, run: impl Fn(&Kernels) -> Vec<f32>) -> Vec<f32> {
    let (scalar, others) = tables();
    let want = run(scalar);
    for table in others {
        same_bits(&run(table), &want, &format!("{}: {what}", table.isa));
    }
    want
}

#[track_caller]
fn close(got: &[f32], want: impl IntoIterator<Item = f64>, relative: f64, absolute: f64) {
    for (i, (&got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(error <= relative * want.abs() + absolute, "element {i}: {got} for {want}");
    }
}

fn wide(x: &[f32]) -> impl Iterator<Item = f64> {
    x.iter().map(|&x| f64::from(x))
}

const LENGTHS: [usize; 9] = [1, 2, 15, 16, 17, 48, 63, 128, 2049];

#[test]
fn dots_are_canonical() {
    let mut noise = Noise::new(10);
    for n in LENGTHS {
        let (a, b) = (noise.floats(n), noise.floats(n));
        let got = agree("dot", |k| vec![(k.dot)(&a, &b), (k.sum_squares)(&a)]);
        let mut lanes = [0.0_f32; 16];
        for i in 0..n {
            lanes[i % 16] = a[i].mul_add(b[i], lanes[i % 16]);
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        same_bits(&got[..1], &lanes[..1], "dot");
    }
}

#[test]
fn norms_and_sums() {
    let mut noise = Noise::new(11);
    for n in LENGTHS {
        let (x, w) = (noise.floats(n), noise.floats(n));
        let mean = wide(&x).map(|x| x * x).sum::<f64>() / n as f64;
        let got = agree("rms_norm", |k| {
            let (mut out, mut inplace) = (vec![f32::NAN; n], x.clone());
            (k.rms_norm)(&x, &w, 1e-6, &mut out);
            (k.rms_norm_inplace)(&mut inplace, &w, 1e-6);
            same_bits(&out, &inplace, "in place");
            out
        });
        let scale = 1.0 / (mean + 1e-6).sqrt();
        close(&got, wide(&x).zip(wide(&w)).map(|(x, w)| x * w * scale), 1e-6, 0.0);
        let got = agree("l2_normalize", |k| {
            let mut x = x.clone();
            (k.l2_normalize)(&mut x, 1e-6);
            x
        });
        let scale = 1.0 / (mean * n as f64 + 1e-6).sqrt();
        close(&got, wide(&x).map(|x| x * scale), 1e-6, 0.0);
        let got = agree("sums", |k| {
            let mut y = w.clone();
            (k.axpy)(0.3, &x, &mut y);
            (k.scale_add)(0.7, &mut y, -0.2, &x);
            (k.scale)(1.5, &mut y);
            (k.add)(&mut y, &x);
            y
        });
        let step = |(x, w): (f64, f64)| 1.5 * (0.7 * (w + f64::from(0.3_f32) * x) - 0.2 * x) + x;
        close(&got, wide(&x).zip(wide(&w)).map(step), 1e-6, 1e-6);
    }
}

/// Distance of `got` from `want` in units of `want`'s last place as f32.
fn ulps(got: f32, want: f64) -> f64 {
    let exponent = (want.abs().log2().floor()).max(-126.0);
    (f64::from(got) - want).abs() / (exponent - 23.0).exp2()
}

#[test]
fn exponential_is_accurate_everywhere() {
    let x: Vec<f32> = (-110_000..90_000).map(|i| i as f32 * 1e-3 + 1e-5).collect();
    let got = agree("exp", |k| {
        let mut x = x.clone();
        (k.exp)(&mut x);
        x
    });
    for (x, got) in x.iter().zip(got) {
        let want = f64::from(*x).exp();
        if want > f64::from(f32::MAX) {
            assert_eq!(got, f32::INFINITY, "exp({x})");
        } else {
            assert!(ulps(got, want) <= 1.0, "exp({x}) = {got:e}, not {want:e}");
        }
    }
    let special = [f32::NEG_INFINITY, -1e30, -104.5, 0.0, -0.0, 88.8, 1e30, f32::INFINITY];
    let got = agree("exp", |k| {
        let mut x = special.to_vec();
        (k.exp)(&mut x);
        x
    });
    assert_eq!(got[..3], [0.0; 3]);
    assert_eq!(got[3..5], [1.0; 2]);
    assert_eq!(got[5..], [f32::INFINITY; 3]);
    let (scalar, others) = tables();
    for table in others.into_iter().chain([scalar]) {
        let mut x = [f32::NAN, 1.0];
        (table.exp)(&mut x);
        assert!(x[0].is_nan() && x[1] == 1.0_f64.exp() as f32, "{x:?}");
    }
}

#[test]
fn logarithm_and_its_kin_are_accurate() {
    let mut noise = Noise::new(12);
    let mut x: Vec<f32> = (0..60_000).map(|_| (noise.float() * 60.0 - 35.0).exp2()).collect();
    x.extend([0.0, 1e-45, 1e-38, 0.414_213_5, 0.414_213_6, 1.0, 4.8e8]);
    let got = agree("log1p", |k| {
        let mut x = x.clone();
        (k.log1p)(&mut x);
        x
    });
    for (x, got) in x.iter().zip(got) {
        let want = f64::from(*x).ln_1p();
        assert!(ulps(got, want) <= 2.0, "log1p({x:e}) = {got:e}, not {want:e}");
    }
    let x: Vec<f32> = (-100_000..30_000).map(|i| i as f32 * 1e-3).collect();
    let run = |pick: fn(&Kernels) -> fn(&mut [f32])| {
        agree("map", |k| {
            let mut x = x.clone();
            pick(k)(&mut x);
            x
        })
    };
    let (softplus, sigmoid, silu) = (run(|k| k.softplus), run(|k| k.sigmoid), run(|k| k.silu));
    for (i, &x) in x.iter().enumerate() {
        let wide = f64::from(x);
        let want = if x > 20.0 { wide } else { wide.exp().ln_1p() };
        assert!(ulps(softplus[i], want) <= 3.0, "softplus({x}) = {:e}, not {want:e}", softplus[i]);
        let want = 1.0 / (1.0 + (-wide).exp());
        // Below -88 the exponential is infinite and the result 0 instead of subnormal.
        let error = (f64::from(sigmoid[i]) - want).abs();
        assert!(error <= 2.5e-7 * want + 1e-38, "sigmoid({x}) = {:e}", sigmoid[i]);
        let error = (f64::from(silu[i]) - want * wide).abs();
        assert!(error <= 2.5e-7 * (want * wide).abs() + 1e-36, "silu({x}) = {:e}", silu[i]);
    }
}

#[test]
fn gates_and_softmax() {
    let mut noise = Noise::new(13);
    let silu = |x: f64| x / (1.0 + (-x).exp());
    for n in LENGTHS {
        let x: Vec<f32> = noise.floats(n).iter().map(|x| x * 8.0).collect();
        let y = noise.floats(n);
        let got = agree("swiglu", |k| {
            let mut out = vec![f32::NAN; n];
            (k.swiglu)(&x, &y, &mut out);
            let mut same = y.clone();
            (k.silu_mul)(&x, &mut same);
            close(&same, wide(&out), 2e-7, 0.0);
            out
        });
        close(&got, wide(&x).zip(wide(&y)).map(|(x, y)| silu(x) * y), 1e-6, 0.0);
        let got = agree("sigmoid_mul", |k| {
            let mut out = y.clone();
            (k.sigmoid_mul)(&x, &mut out);
            out
        });
        close(&got, wide(&x).zip(wide(&y)).map(|(x, y)| y / (1.0 + (-x).exp())), 1e-6, 0.0);
        let got = agree("softmax", |k| {
            let mut out = x.clone();
            (k.softmax)(&mut out);
            out.push((k.max)(&x));
            out
        });
        let top = wide(&x).fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(f64::from(got[n]), top);
        let sum: f64 = wide(&x).map(|x| (x - top).exp()).sum();
        close(&got[..n], wide(&x).map(|x| (x - top).exp() / sum), 1e-6, 0.0);
        let got = agree("decay", |k| {
            let mut out = y.clone();
            let rates = vec![-0.5; n];
            (k.decay)(&mut out, &rates, &x);
            out
        });
        let step = |(x, y): (f64, f64)| (-0.5 * (x + y).exp().ln_1p()).exp();
        close(&got, wide(&x).zip(wide(&y)).map(step), 1e-5, 0.0);
    }
}

#[test]
fn convolution() {
    let mut noise = Noise::new(14);
    for (channels, taps) in [(1, 4), (16, 4), (40, 4), (33, 3), (20, 5)] {
        let w = noise.floats(channels * taps);
        let rows: Vec<Vec<f32>> = (0..taps).map(|_| noise.floats(channels)).collect();
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let got = agree("conv1d_silu", |k| {
            let mut out = vec![f32::NAN; channels];
            (k.conv1d_silu)(&w, &rows, &mut out);
            out
        });
        let want = (0..channels).map(|c| {
            let sum = |t: usize| f64::from(w[c * taps + t]) * f64::from(rows[t][c]);
            let x: f64 = (0..taps).map(sum).sum();
            x / (1.0 + (-x).exp())
        });
        close(&got, want, 1e-6, 1e-6);
    }
}

/// The delta rule in f64, token after token.
fn delta_reference(
    state: &mut [f64],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    decay: f32,
    beta: f32,
) -> Vec<f64> {
    let n = k.len();
    let (decay, beta) = (f64::from(decay), f64::from(beta));
    let dot = |row: &[f64], x: &[f32]| row.iter().zip(wide(x)).map(|(a, b)| a * b).sum::<f64>();
    let rows = state.chunks_exact_mut(n).zip(v);
    rows.map(|(row, &v)| {
        row.iter_mut().for_each(|s| *s *= decay);
        let write = beta * (f64::from(v) - dot(row, k));
        row.iter_mut().zip(wide(k)).for_each(|(s, k)| *s += write * k);
        dot(row, q)
    })
    .collect()
}

#[test]
fn delta_rule_over_tokens() {
    let mut noise = Noise::new(15);
    for (n, tokens) in [(16, 1), (32, 3), (128, 1), (16, 130)] {
        // Strides wider than the vectors, as in the arena.
        let mut columns = |width: usize| noise.floats(width * tokens);
        let (q, mut k, v) = (columns(n + 5), columns(n + 3), columns(n));
        let gates = columns(2);
        k.iter_mut().for_each(|k| *k /= (n as f32).sqrt());
        let start = columns(n * n / tokens + n * n);
        let start = &start[..n * n];
        let decay: Vec<f32> = gates.iter().map(|g| 0.9 + 0.1 * g.abs()).collect();
        let run = |table: &Kernels, chunk: usize| {
            let mut state = start.to_vec();
            let mut out = vec![f32::NAN; n * tokens];
            for (i, out) in out.chunks_mut(n * chunk).enumerate() {
                let part = |data: &'_ [f32], stride: usize| data[i * chunk * stride..].to_vec();
                let (q, k, v) = (part(&q, n + 5), part(&k, n + 3), part(&v, n));
                let (decay, beta) = (part(&decay, 2), part(&gates, 2));
                let mut out: Vec<&mut [f32]> = out.chunks_mut(n).collect();
                (table.delta)(DeltaArgs {
                    state: &mut state,
                    q: PerToken { data: &q, stride: n + 5 },
                    k: PerToken { data: &k, stride: n + 3 },
                    v: PerToken { data: &v, stride: n },
                    decay: PerToken { data: &decay, stride: 2 },
                    beta: PerToken { data: &beta, stride: 2 },
                    out: &mut out,
                });
            }
            out.extend(state);
            out
        };
        let got = agree("delta", |table| run(table, tokens));
        agree("delta", |table| {
            let chunked = run(table, 1);
            same_bits(&chunked, &got, "one token at a time");
            chunked
        });
        let mut state: Vec<f64> = wide(start).collect();
        let mut want = Vec::new();
        for t in 0..tokens {
            let (q, k) = (&q[t * (n + 5)..][..n], &k[t * (n + 3)..][..n]);
            let v = &v[t * n..][..n];
            want.extend(delta_reference(&mut state, q, k, v, decay[2 * t], gates[2 * t]));
        }
        close(&got, want.into_iter().chain(state), 1e-4, 2e-5);
    }
}

#[test]
fn halves_convert_as_ieee_says() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let got = agree("from_f16", |k| {
        let mut out = vec![f32::NAN; all.len()];
        (k.from_f16)(&all, &mut out);
        out
    });
    for (bits, got) in all.iter().zip(got) {
        let want = half::f16::from_bits(*bits).to_f32();
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#x}");
    }
    let mut noise = Noise::new(16);
    let mut x: Vec<f32> =
        (0..50_000).map(|_| noise.float() * (noise.float() * 40.0).exp2()).collect();
    x.extend([
        0.0,
        -0.0,
        65_504.0,
        65_519.99,
        65_520.0,
        1e9,
        f32::INFINITY,
        5.96e-8,
        2.98e-8,
        1e-30,
    ]);
    let got = agree("to_f16", |k| {
        let mut out = vec![0; x.len()];
        (k.to_f16)(&x, &mut out);
        out.into_iter().map(f32::from).collect()
    });
    for (x, got) in x.iter().zip(got) {
        assert_eq!(got, f32::from(half::f16::from_f32(*x).to_bits()), "{x:e}");
    }
}

#[test]
fn attention_over_rows() {
    let mut noise = Noise::new(17);
    for (heads, dim, count) in [(1, 16, 1), (3, 32, 5), (4, 64, 7), (8, 256, 33)] {
        let stride = dim + 16;
        let f32_rows = noise.floats(stride * count);
        let mut f16_rows = vec![0; f32_rows.len()];
        (tables().0.to_f16)(&f32_rows, &mut f16_rows);
        let restored: Vec<f32> =
            f16_rows.iter().map(|&b| half::f16::from_bits(b).to_f32()).collect();
        let (q, acc) = (noise.floats(heads * dim), noise.floats(heads * dim));
        for (rows, values) in [
            (KvRows::F32 { data: &f32_rows, stride }, &f32_rows),
            (KvRows::F16 { data: &f16_rows, stride }, &restored),
        ] {
            let scores = agree("scores", |k| {
                let mut out = vec![f32::NAN; heads * count];
                (k.attention_scores)(&q, dim, rows, count, 0.25, &mut out);
                for (h, out) in out.chunks(count).enumerate() {
                    for (t, score) in out.iter().enumerate() {
                        let dot = (k.dot)(&q[h * dim..][..dim], &values[t * stride..][..dim]);
                        same_bits(&[*score], &[dot * 0.25], "a score is a dot");
                    }
                }
                out
            });
            let got = agree("values", |k| {
                let mut acc = acc.clone();
                (k.attention_values)(&scores, dim, rows, count, &mut acc);
                acc
            });
            let mut want = acc.clone();
            for (h, want) in want.chunks_mut(dim).enumerate() {
                for t in 0..count {
                    for (i, want) in want.iter_mut().enumerate() {
                        *want = scores[h * count + t].mul_add(values[t * stride + i], *want);
                    }
                }
            }
            same_bits(&got, &want, "values in order");
        }
    }
}
