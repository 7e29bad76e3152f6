// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestForgetLinkEncryption(t *testing.T) {
	const vni = 0x800000
	node, _ := attachedNode(t)
	for encrypted, want := range map[bool][]string{true: {"network-encryption-set 8388608 none"}, false: nil} {
		ktsnd := &listening{}
		r := &Record{Attachment: overlay.Attachment{Network: LinkNetwork}, VNI: vni, Bridge: overlay.BridgeName(vni), Tunnel: overlay.TunnelName(vni), Overlay: overlay.Network{Encrypted: encrypted}}
		testlab.Must(t, node.ForgetLink(t.Context(), r.network(), (&daemon{ktsnd.serve(t)}).timed()))
		if !slices.Equal(ktsnd.requests, want) {
			t.Errorf("encrypted %v: ktsnd was told %q", encrypted, ktsnd.requests)
		}
	}
}
