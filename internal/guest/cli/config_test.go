// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
)

func TestUnitNamesTheProgram(t *testing.T) {
	for executable, want := range map[string]string{
		"/usr/sbin/ktsn-guest": "ExecStart=/usr/sbin/ktsn-guest run ",
		"/tmp/ktsn-guest":      "ExecStart=/usr/local/sbin/ktsn-guest run ",
	} {
		text, err := configuration("systemd", executable, []string{"eth0"}, "")
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("for %s it prints %q, %v, want %q", executable, text, err, want)
		}
	}
}
