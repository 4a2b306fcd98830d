// SPDX-License-Identifier: LGPL-3.0-only
//! The fair-shares of associations, in a table that is parallel to the associations of the book.
//!
//! [`AssociationId`] is a dense index that is never reused, so the table needs no lookup by name. The
//! fair-share of a removed association stays in the table, because its live jobs still need it.

use super::AssociationId;
use super::versions::{Epochs, Versioned};

/// The fair-share of each association. Staged fair-shares take effect at the commit of the push.
#[derive(Clone, Debug, Default)]
pub(super) struct FairShares(Vec<Versioned<f64>>);

impl FairShares {
    /// Returns the fair-share of association `id`, or the last fair-share of a removed association. Returns `None` if
    /// the association never had a fair-share.
    pub fn find_current_or_last_value(&self, epochs: &Epochs, id: AssociationId) -> Option<f64> {
        self.0.get(id.index())?.find_current_or_last_value(epochs).copied()
    }

    /// Returns the fair-share of association `id` in the staged push, or `None` if the push does not contain the association.
    pub fn staged(&self, epochs: &Epochs, id: AssociationId) -> Option<f64> {
        self.0.get(id.index())?.staged(epochs).copied()
    }

    /// Sets a fair-share that takes effect at once.
    pub fn put(&mut self, epochs: &Epochs, id: AssociationId, fairshare: f64) {
        if let Some(value) = self.find_or_add(id) {
            value.put(epochs, fairshare);
        }
    }

    /// Sets a fair-share in the staged push.
    pub fn stage(&mut self, epochs: &Epochs, id: AssociationId, fairshare: f64) {
        if let Some(value) = self.find_or_add(id) {
            value.stage(epochs, fairshare);
        }
    }

    /// Removes the values of aborted pushes.
    pub fn remove_aborted_values(&mut self, epochs: &Epochs) {
        self.0.iter_mut().for_each(|value| value.remove_aborted_values(epochs));
    }

    fn find_or_add(&mut self, id: AssociationId) -> Option<&mut Versioned<f64>> {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, Versioned::default);
        }
        self.0.get_mut(id.index())
    }
}
