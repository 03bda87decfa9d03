//! More or less of everything.

use super::{Course, Delivery, Opportunity, Timeline, TimelineError};
use crate::units::Factor;

impl Timeline {
    /// `factor` times what it carries: rates times the factor, rounded down but not to 0; or more
    /// or fewer opportunities at their instants, so that up to each of them it is the factor times
    /// as many, rounded down. Delays, losses and times stay.
    pub fn scaled(self, factor: Factor) -> Result<Self, TimelineError> {
        if factor == Factor::ONE {
            return Ok(self);
        }
        let course = match self.course {
            Course::Steps(mut steps) => {
                for step in &mut steps {
                    step.rate = step.rate.map(|rate| factor.of_rate(rate));
                }
                Course::Steps(steps)
            }
            Course::Deliveries { at, opportunity } => scaled_deliveries(&at, opportunity, factor)?,
        };
        Ok(Self { course, span: self.span })
    }
}

fn scaled_deliveries(
    at: &[Delivery],
    opportunity: Opportunity,
    factor: Factor,
) -> Result<Course, TimelineError> {
    let (mut before, mut after) = (0_u64, 0_u128);
    let mut scaled = Vec::with_capacity(at.len());
    for (index, delivery) in at.iter().enumerate() {
        before += u64::from(delivery.count);
        let total = factor.of(before);
        let count = u32::try_from(total - after).map_err(|_| TimelineError::TooMany(index + 1))?;
        after = total;
        if count > 0 {
            scaled.push(Delivery { at: delivery.at, count });
        }
    }
    Ok(Course::Deliveries { at: scaled, opportunity })
}
