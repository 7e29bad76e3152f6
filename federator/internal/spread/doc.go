// SPDX-License-Identifier: Apache-2.0

// Package spread has what networks and services have in common when the hub divides them among clusters: Karmada's
// policies that give each cluster the object with its own part, the reports of clusters about the object, and the
// resulting conditions.
package spread
