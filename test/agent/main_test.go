// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/apiserver"
)

// The API server under test; errServer is why it does not run.
var (
	config    *rest.Config
	admin     client.Client
	errServer error
	scheme    = runtime.NewScheme()
)

// patience limits operations that take milliseconds on an idle machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	suite := apiserver.Suite{
		Scheme: scheme, Resources: []string{"../../charts/kubernetsn/files"},
		Before: func(c *rest.Config, a client.Client, err error) { config, admin, errServer = c, a, err },
	}
	os.Exit(suite.Run(m))
}

// needServer skips a test without an API server, and returns a context with a timeout.
func needServer(t *testing.T) context.Context {
	t.Helper()
	if errServer != nil {
		testlab.Missing(t, errServer.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func create(ctx context.Context, t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			t.Fatalf("create %T: %v", object, err)
		}
		t.Cleanup(func() {
			if err := admin.Delete(context.WithoutCancel(ctx), object); client.IgnoreNotFound(err) != nil {
				t.Errorf("delete %T: %v", object, err)
			}
		})
	}
}

// update updates an object.
func update(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Update(ctx, object); err != nil {
		t.Fatalf("update %T: %v", object, err)
	}
}
