// SPDX-License-Identifier: Apache-2.0

package ddsperf

// Security is nil for now.
type Security struct{}
type securityField struct{}

func (s *Security) field() *securityField { return &securityField{} }
