// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli"
)

// kubeconfig is a file by which ktsn finds the API server.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"x": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"x": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "x", AuthInfo: "x"}},
		CurrentContext: "x",
	}, file)
	must(t, err)
	return file
}

// ktsn runs the command, and returns its exit status and what it wrote, with one space between columns.
func ktsn(ctx context.Context, arguments ...string) (status int, text string) {
	var out strings.Builder
	status = cli.Main(ctx, arguments, &out, &out)
	return status, strings.Join(strings.Fields(out.String()), " ")
}

func TestClockCommand(t *testing.T) {
	ctx := needOperator(t)
	file := kubeconfig(t)
	network, node := newNetwork("shown", 243, "10.243.0.0/16"), newNode("shown-1")
	network.Spec.Clock = &v1alpha1.ClockRequirement{MaxError: "5us", OnLoss: v1alpha1.OnLossHold}
	create(ctx, t, node, network)
	create(ctx, t, onNetwork("shown-one", "default", "shown", node.Name))
	awaitState(ctx, t, stateOf(node.Name), "shown=10.243.0.0/24,1 gates=")
	reportClock(ctx, t, node.Name, network, metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized)
	const output = `{"status":{"clock":{"state":"Unsynchronized","since":"2026-11-23T12:00:00Z","source":"PTP","grandmaster":"001122.fffe.334455",
		"errorBoundNanoseconds":20000,"steps":2,"message":"run ptp4l","history":[{"time":"2026-11-23T12:00:00.123456Z","state":"Unsynchronized","reason":"PortLost"}]}}}`
	mustPatchStatus(ctx, t, stateOf(node.Name), output)
	condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized)
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      []string
	}{
		"all nodes": {[]string{"clock"}, 0, []string{"PTP 001122.fffe.334455 20µs 2 shown", "-> shown-1: run ptp4l"}},
		"one node": {[]string{"clock", "shown-1"}, 0, []string{"shown 5us 1m Hold no; ClockUnsynchronized: its clock is ClockUnsynchronized",
			"2026-11-23 12:00:00.123Z Unsynchronized PortLost -"}},
		"one node in JSON":  {[]string{"clock", "shown-1", "-o", "json"}, 0, []string{`"maxError": "5us", "holdover": "1m", "onLoss": "Hold", "good": "False"`}},
		"another":           {[]string{"clock", "nowhere"}, 1, []string{"there is no TSNNode nowhere: no such node, or none with pods on networks"}},
		"two":               {[]string{"clock", "shown-1", "nowhere"}, 2, []string{`"nowhere" is too much`}},
		"the whole cluster": {[]string{"status", "--cluster"}, 0, []string{"clocks of nodes: an error of at most 5us, 1m without a source; messages where it is lost: Hold"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, got := ktsn(ctx, append(test.arguments, "--kubeconfig", file)...)
			if status != test.status {
				t.Errorf("it ends with %d, want %d", status, test.status)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s\nwant %s in it", got, want)
				}
			}
		})
	}
}
