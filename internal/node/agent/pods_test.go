// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestVolumeAwaitsConfigurations(t *testing.T) {
	annotated := metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "uid", Annotations: map[string]string{v1alpha1.NetworkAnnotation: "a, b"}}
	plain := metav1.ObjectMeta{Name: "plain", Namespace: "default", UID: "plain"}
	pods := fake.NewClientBuilder().WithObjects(&corev1.Pod{ObjectMeta: annotated}, &corev1.Pod{ObjectMeta: plain}).Build()
	dir := t.TempDir()
	check := func(name, uid, want string) {
		t.Helper()
		err := checkConfigurations(t.Context(), pods, dir, &csi.Volume{Namespace: "default", Pod: name, UID: uid})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("pod %s: %v, want %q", name, err, want)
		}
	}
	check("unknown", "uid", "find the pod")
	check("p", "before", "another pod has its name")
	check("plain", "plain", "")
	check("p", "uid", "network a")
	testlab.Must(t, os.WriteFile(filepath.Join(dir, "a.conf"), nil, 0o600))
	check("p", "uid", "network b")
	testlab.Must(t, os.WriteFile(filepath.Join(dir, "b.conf"), nil, 0o600))
	check("p", "uid", "")
}

func TestOccupied(t *testing.T) {
	const namespace = "/proc/self/ns/net"
	proc := t.TempDir()
	testlab.Must(t, os.MkdirAll(filepath.Join(proc, "1", "ns"), 0o755))
	testlab.Must(t, os.MkdirAll(filepath.Join(proc, "2", "ns"), 0o755)) // it has just ended
	testlab.Must(t, os.Symlink(namespace, filepath.Join(proc, "1", "ns", "net")))
	for name, test := range map[string]struct {
		proc, path string
		want       bool
	}{
		"a namespace with a process":          {proc, namespace, true},
		"a namespace without processes":       {proc, proc, false},
		"a namespace that is gone":            {proc, filepath.Join(proc, "gone"), false},
		"a node whose processes are not seen": {"", proc, true},
		"a folder without processes":          {t.TempDir(), proc, true},
	} {
		if got := occupied(test.proc, test.path); got != test.want {
			t.Errorf("%s: occupied is %v", name, got)
		}
	}
}
