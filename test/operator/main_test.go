// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
	"github.com/kubernetsn/kubernetsn/test/apiserver"
)

// The API server under test; config is nil without one.
var (
	config *rest.Config
	admin  client.Client
	whyNot string
	scheme = runtime.NewScheme()
)

// patience is how long anything may take that takes milliseconds on an idle machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	stop, err := startServer()
	if err != nil {
		whyNot = err.Error()
	}
	status := m.Run()
	endOperator()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func startServer() (stop func() error, err error) {
	// Of Multus only the form of its resource is needed.
	started, stop, err := apiserver.Start("../../charts/kubernetsn/files", "testdata")
	if err != nil {
		return stop, err
	}
	made, err := client.New(started, client.Options{Scheme: scheme})
	if err != nil {
		return stop, err
	}
	config, admin = started, made
	return stop, nil
}

// needServer skips a test where there is none, and bounds what it does.
func needServer(t testing.TB) context.Context {
	t.Helper()
	if config == nil {
		testenv.Missing(t, whyNot)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
