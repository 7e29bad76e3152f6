// SPDX-License-Identifier: Apache-2.0

// Package linkledger is what whoever makes links remembers of them beside what its cache has: what it has just written, and which numbers and
// addresses were released a moment ago, also by who made links before it.
package linkledger
