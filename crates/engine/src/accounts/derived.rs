// SPDX-License-Identifier: LGPL-3.0-only
//! What is derived for associations, apart from what is configured: columns that run parallel to the book's.
//!
//! [`AssociationId`] is a dense index, given once and never to another association. Whoever derives something keeps one
//! value for each id, in the order of ids, and needs no look-up by name to join: the leaf of the fair-share tree that
//! stands for an association is noted with its id when the tree is built from the book, and ranking the tree writes each
//! leaf's fair-share here, under that id. A removed association keeps its place, for the jobs that still count in it.

use super::AssociationId;
use super::versions::{Epochs, Versioned};

/// A fair-share for each association. A push that brings some puts them in force with the rest of it.
#[derive(Clone, Debug, Default)]
pub(super) struct FairShares(Vec<Versioned<f64>>);

impl FairShares {
    /// That in force; if its association was removed, the last that was.
    pub fn last(&self, epochs: &Epochs, id: AssociationId) -> Option<f64> {
        self.0.get(id.index())?.last(epochs).copied()
    }

    /// That of the open push.
    pub fn staged(&self, epochs: &Epochs, id: AssociationId) -> Option<f64> {
        self.0.get(id.index())?.staged(epochs).copied()
    }

    /// Puts one in force at once.
    pub fn put(&mut self, epochs: &Epochs, id: AssociationId, fairshare: f64) {
        if let Some(place) = self.place(id) {
            place.put(epochs, fairshare);
        }
    }

    /// Notes one of the open push.
    pub fn stage(&mut self, epochs: &Epochs, id: AssociationId, fairshare: f64) {
        if let Some(place) = self.place(id) {
            place.stage(epochs, fairshare);
        }
    }

    /// Removes the values of pushes that were given up.
    pub fn drop_given_up(&mut self, epochs: &Epochs) {
        self.0.iter_mut().for_each(|place| place.drop_given_up(epochs));
    }

    fn place(&mut self, id: AssociationId) -> Option<&mut Versioned<f64>> {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, Versioned::default);
        }
        self.0.get_mut(id.index())
    }
}
