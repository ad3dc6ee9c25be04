// Package proxyconfig holds the settings of drover proxy. It owns their names, their defaults and their validation;
// package settings reads them. A proxy learns its identity and the addresses of its servers when it joins, not from
// settings.
package proxyconfig

import (
	"errors"

	"drover/internal/config"
	"drover/internal/config/settings"
)

// Config holds the settings of drover proxy. The keys of the file are the names of the flags.
type Config struct {
	DataDir string `yaml:"data-dir"`
	// Fabric is the address for agents, HTTP the address at which hosts join.
	Fabric   string `yaml:"fabric"`
	HTTP     string `yaml:"http"`
	LogLevel string `yaml:"log-level"`
}

// The default addresses are those of servers, so that agents need not know whether they connect to a proxy.
const (
	defaultHTTP   = "0.0.0.0:7350"
	defaultFabric = "0.0.0.0:7351"
)

// Default returns the default settings of a proxy.
func Default() Config {
	return Config{DataDir: config.DataDir(), Fabric: defaultFabric, HTTP: defaultHTTP, LogLevel: "info"}
}

// Settings lists the settings of a Config, in the order in which the help shows them.
func (c *Config) Settings() []settings.Setting {
	return []settings.Setting{
		{Name: "data-dir", Help: "directory for all stored data", Text: &c.DataDir},
		{Name: "fabric", Help: "address that agents connect to", Text: &c.Fabric},
		{Name: "http", Help: "address that hosts join at", Text: &c.HTTP},
		{Name: "log-level", Help: "debug, info, warn or error", Text: &c.LogLevel},
	}
}

// ReadFile reads a file over the settings. An unknown key is an error.
func (c *Config) ReadFile(path string) error { return settings.ReadFile(path, c) }

// ReadEnvironment reads the environment over the settings.
func (c *Config) ReadEnvironment() error { return settings.ReadEnvironment(c.Settings()) }

// Validate reports everything that is wrong, and makes the data directory absolute.
func (c *Config) Validate() error {
	_, fabric := settings.Address("fabric", c.Fabric, defaultFabric)
	_, http := settings.Address("http", c.HTTP, defaultHTTP)
	return errors.Join(settings.DataDir(&c.DataDir), fabric, http, settings.LogLevel(c.LogLevel))
}
