// SPDX-License-Identifier: Apache-2.0

// Package results defines the format of measurements: summary.json, and one CSV line per message. The demo and every
// bench write the same format.
package results
