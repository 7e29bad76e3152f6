// SPDX-License-Identifier: Apache-2.0

package txtime

// Report is what the virtual machine says of a case.
type Report struct {
	Case  Case  `json:"case"`
	Facts Facts `json:"facts"`
	// Failure tells why the case could not be run.
	Failure string `json:"failure,omitempty"`
}
