// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"bytes"
	"encoding/json"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestResultOfOlderVersion(t *testing.T) {
	for version, want := range map[string]bool{"0.4.0": false, "1.0.0": false, "1.1.0": true} {
		result := &current.Result{Interfaces: []*current.Interface{
			{Name: "tsn0", Mac: "52:54:00:12:34:56", Mtu: 1500, Sandbox: "/run/netns/c", PciID: "0000:02:00.0"},
		}}
		leaveOutLater(result, version)
		converted, err := result.GetAsVersion(version)
		testlab.Must(t, err)
		text, err := json.Marshal(converted)
		testlab.Must(t, err)
		for _, field := range []string{"pciID", "mtu"} {
			if got := bytes.Contains(text, []byte(`"`+field+`"`)); got != want {
				t.Errorf("in %s there is %s: %v, want %v: %s", version, field, got, want, text)
			}
		}
	}
}
