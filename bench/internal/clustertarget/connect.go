// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// answerTimeout is how long the cluster may take to answer a question.
const answerTimeout = 15 * time.Second

// Where says which cluster, and what of it.
type Where struct {
	Kubeconfig string
	// Context is one of the file's; empty: its current one.
	Context string
	// Namespace is made for the bench, and removed.
	Namespace string
	// Network is that of path tsn: NAME of a TSNNetwork, or NAMESPACE/NAME of it and of where the chart is, or, where there is
	// no such TSNNetwork, of a NetworkAttachmentDefinition.
	Network string
	// AnyClock measures also with clocks that are not good enough for it, and marks what it measures.
	AnyClock bool
	// Image holds tsnperf; empty: the one beside ktsnd's, or the operator's.
	Image string
}

// connection is a cluster that was reached.
type connection struct {
	Where
	config *rest.Config
	// core and authorization are the groups of its API that a bench asks.
	core, authorization rest.Interface
	// discovery is that of Services, for what is found by their names.
	discovery rest.Interface
	// annotated tells that the network is a TSNNetwork, on which the operator puts the pods that are annotated.
	annotated bool
}

// connect reads the kubeconfig; the cluster is not asked yet.
func connect(where Where) (*connection, error) {
	// The library writes to stderr what it also returns.
	klog.SetLogger(logr.Discard())
	if _, err := os.Stat(where.Kubeconfig); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: where.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: where.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %s", where.Kubeconfig, oneLine(err))
	}
	config.UserAgent = "ktsn-bench"
	c := &connection{Where: where, config: config}
	var errCore, errAuthorization, errDiscovery error
	c.core, errCore = clientOf(config, "/api", corev1.SchemeGroupVersion)
	c.authorization, errAuthorization = clientOf(config, "/apis", authorizationv1.SchemeGroupVersion)
	c.discovery, errDiscovery = clientOf(config, "/apis", discoveryv1.SchemeGroupVersion)
	if err := errors.Join(errCore, errAuthorization, errDiscovery); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %s", where.Kubeconfig, oneLine(err))
	}
	return c, nil
}

// objects are the kinds that a bench knows. The library's own list has all, and makes a program nearly twice as large.
var objects = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(authorizationv1.AddToScheme(scheme))
	utilruntime.Must(discoveryv1.AddToScheme(scheme))
	return scheme
}()

// parameters writes the options of a question.
var parameters = runtime.NewParameterCodec(objects)

func clientOf(config *rest.Config, path string, group schema.GroupVersion) (rest.Interface, error) {
	asking := rest.CopyConfig(config)
	asking.Timeout, asking.ContentType = answerTimeout, runtime.ContentTypeJSON
	asking.APIPath, asking.GroupVersion = path, &group
	asking.NegotiatedSerializer = serializer.NewCodecFactory(objects).WithoutConversion()
	return rest.RESTClientFor(asking)
}

// explain makes one sentence of what a cluster, or the way to it, said about a question.
func (c *connection) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var unreachable *url.Error
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster at %s does not accept the credentials of %s; get new ones, or name another --context",
			doing, c.config.Host, c.Kubeconfig)
	case errors.As(err, &unreachable) || errors.As(err, &network):
		return fmt.Errorf("%s: the cluster at %s does not answer: %s; check --kubeconfig, --context and the way there", doing,
			c.config.Host, lastPart(err))
	}
	return fmt.Errorf("%s: %s", doing, oneLine(err))
}

// oneLine is an error's text as part of a sentence.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// lastPart leaves out the question that an error of the network begins with.
func lastPart(err error) string {
	var unreachable *url.Error
	if errors.As(err, &unreachable) {
		return oneLine(unreachable.Err)
	}
	return oneLine(err)
}
