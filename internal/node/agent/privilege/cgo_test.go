// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package privilege

func init() { withCgo = true }
