//! Figures of many rounds, taken in turns.

use std::time::{Duration, Instant};

/// What one thing came to in each round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Notes one round.
    pub fn add(&mut self, figure: f64) {
        let place = self.0.partition_point(|other| *other < figure);
        self.0.insert(place, figure);
    }

    /// The figure that a part of the rounds, 0 to 1, did not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let index = (self.0.len() as f64 * part) as usize;
        self.0[index.min(self.0.len() - 1)]
    }

    /// The figure that half of the rounds did not exceed: noise of the machine moves it little.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// How far the middle half of the rounds lies apart, as a part of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.quantile(0.75) - self.quantile(0.25)) / self.median()
    }

    /// All figures, the smallest first.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }
}

/// A time in nanoseconds.
#[must_use]
pub fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// One of the things that take turns: answers its figure for a round.
pub type Turn<'a> = Box<dyn FnMut() -> f64 + 'a>;

/// Nanoseconds for each of `times` in a row.
pub fn each<'a>(times: u32, mut run: impl FnMut() + 'a) -> Turn<'a> {
    Box::new(move || {
        let before = Instant::now();
        for _ in 0..times {
            run();
        }
        nanos(before.elapsed()) / f64::from(times)
    })
}

/// Lets all take their turn in every round, forwards and backwards by turns, so that noise of the machine and
/// whatever a predecessor leaves behind hit all alike. The first round opens connections and is not counted.
pub fn take_turns<const N: usize>(
    rounds: usize,
    mut turns: [Turn<'_>; N],
    mut tell: impl FnMut(usize),
) -> [Samples; N] {
    let mut samples = std::array::from_fn(|_| Samples::default());
    for round in 0..=rounds {
        for step in 0..N {
            let which = if round % 2 == 0 { step } else { N - 1 - step };
            let figure = turns[which]();
            if round > 0 {
                samples[which].add(figure);
            }
        }
        tell(round);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_figures_of_rounds() {
        let mut samples = Samples::default();
        for figure in [5.0, 1.0, 4.0, 2.0, 3.0] {
            samples.add(figure);
        }
        assert_eq!(samples.sorted(), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(samples.quantile(0.0), 1.0);
        assert_eq!(samples.median(), 3.0);
        assert_eq!(samples.quantile(1.0), 5.0);
        assert_eq!(samples.spread(), 2.0 / 3.0);
    }

    #[test]
    fn all_take_their_turn_and_the_first_round_does_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let turn = |name: char| -> Turn<'_> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(name);
                order.borrow().len() as f64
            })
        };
        let [a, b] = take_turns(2, [turn('a'), turn('b')], |_| ());
        assert_eq!(*order.borrow(), "abbaab");
        assert_eq!((a.sorted(), b.sorted()), (&[4.0, 5.0][..], &[3.0, 6.0][..]));
    }
}
