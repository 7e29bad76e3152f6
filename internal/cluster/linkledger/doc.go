// SPDX-License-Identifier: Apache-2.0

// Package linkledger tracks TSNLinks beyond what a cache has: links that were just written, and VNIs and addresses that were released
// recently, also by a previous maker of links.
package linkledger
