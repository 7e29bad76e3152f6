// SPDX-License-Identifier: Apache-2.0

package txtime

// Report is the virtual machine's report of a case.
type Report struct {
	Case  Case  `json:"case"`
	Facts Facts `json:"facts"`
	// Failure is why the case could not be run.
	Failure string `json:"failure,omitempty"`
}
