// SPDX-License-Identifier: Apache-2.0

// Package spread is what there is in common to networks and services that the hub divides among clusters: policies of Karmada's by which each
// cluster gets the object with a part of its own, what clusters report of it, and the conditions that say what became of it.
package spread
