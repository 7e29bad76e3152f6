// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/apiserver"
)

// The hub of all tests, or the reason why there is none.
var (
	server   *envtest.Environment
	config   *rest.Config
	admin    client.WithWatch
	whyNoHub error
)

// system is the namespace of the federator.
const system = "kubernetsn-system"

func TestMain(m *testing.M) {
	whyNoHub = startHub()
	status := m.Run()
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

func startHub() error {
	folders := []string{"testdata", "../../../charts/kubernetsn/files"}
	for module, within := range map[string][]string{
		"github.com/karmada-io/karmada":     {"charts/karmada/_crds/bases/policy", "charts/karmada/_crds/bases/work"},
		"sigs.k8s.io/cluster-inventory-api": {"config/crd/bases"},
	} {
		text, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return fmt.Errorf("find module %s: %w", module, err)
		}
		for _, folder := range within {
			folders = append(folders, filepath.Join(strings.TrimSpace(string(text)), folder))
		}
	}
	environment, err := apiserver.New(folders...)
	if err != nil {
		return err
	}
	server = environment
	server.ControlPlane.GetAPIServer().Configure().Set("enable-bootstrap-token-auth", "true")
	if config, err = server.Start(); err != nil {
		return err
	}
	scheme, err := hub.Scheme()
	if err != nil {
		return err
	}
	if admin, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return admin.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})
}

// needHub skips a test without an API server, and limits its duration.
func needHub(t *testing.T) context.Context {
	t.Helper()
	if whyNoHub != nil {
		testlab.Missing(t, whyNoHub.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
