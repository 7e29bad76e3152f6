// SPDX-License-Identifier: Apache-2.0

// Package journal lists events of the hub and watches its objects, with the caller's rights.
package journal
