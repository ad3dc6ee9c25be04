package gse

import "encoding/json"

// The readers below fill in what encoding/json would, by the names of the fields' tags.

func (b *multiBody) read(s *scanner) {
	const list = "proc_operate_req"
	s.object("", func(name []byte) {
		if string(name) != list {
			s.value()
			return
		}
		b.Requests = nil
		s.array(list, func() {
			s.under = list + "."
			b.Requests = append(b.Requests, operateBody{})
			b.Requests[len(b.Requests)-1].read(s)
		})
		s.under = ""
	})
}

func (b *operateBody) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "meta":
			b.Meta = pointed(s, b.Meta, func(m *meta) { m.read("meta", s) })
		case "hosts":
			b.Hosts = nil
			s.array("hosts", func() {
				b.Hosts = append(b.Hosts, host{})
				b.Hosts[len(b.Hosts)-1].read("hosts", s)
			})
		case "agent_id_list":
			b.Agents = nil
			s.array("agent_id_list", func() {
				b.Agents = append(b.Agents, Str{})
				s.scalar(&b.Agents[len(b.Agents)-1])
			})
		case "op_type":
			s.scalar(&b.OpType)
		case "spec":
			b.Spec = s.value()
		default:
			s.value()
		}
	})
}

// pointed reads a value that may be null, into the one that is there or into a new one.
func pointed[T any](s *scanner, v *T, read func(*T)) *T {
	if s.peek() == 'n' {
		s.value()
		return nil
	}
	if v == nil {
		v = new(T)
	}
	read(v)
	return v
}

func (m *meta) read(field string, s *scanner) {
	s.object(field, func(name []byte) {
		switch string(name) {
		case "namespace":
			s.scalar(&m.Namespace)
		case "name":
			s.scalar(&m.Name)
		case "labels":
			m.Labels = append(json.RawMessage(nil), s.value()...) // it is kept for longer than the body
		default:
			s.value()
		}
	})
}

func (h *host) read(field string, s *scanner) {
	s.object(field, func(name []byte) {
		switch string(name) {
		case "ip":
			s.scalar(&h.IP)
		case "bk_cloud_id":
			s.scalar(&h.Cloud)
		case "bk_supplier_id":
			s.scalar(&h.Supplier)
		default:
			s.value()
		}
	})
}

func (b *specBody) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "identity":
			b.Identity = pointed(s, b.Identity, func(i *identityBody) { i.read(s) })
		case "control":
			b.Control = pointed(s, b.Control, func(c *controlBody) { c.read(s) })
		case "resource":
			b.Resource = pointed(s, b.Resource, func(r *resourceBody) { r.read(s) })
		case "monitor_policy":
			b.Monitor = pointed(s, b.Monitor, func(p *policyBody) { p.read("monitor_policy", s) })
		case "alive_monitor_policy":
			b.Alive = pointed(s, b.Alive, func(p *policyBody) { p.read("alive_monitor_policy", s) })
		case "warn_report_policy":
			b.Warn = pointed(s, b.Warn, func(w *warnBody) { w.read(s) })
		case "configmap":
			b.Configs = nil
			s.array("configmap", func() {
				b.Configs = append(b.Configs, configBody{})
				b.Configs[len(b.Configs)-1].read(s)
			})
		default:
			s.value()
		}
	})
}

func (i *identityBody) read(s *scanner) {
	s.object("identity", func(name []byte) {
		switch string(name) {
		case "proc_name":
			s.scalar(&i.ProcName)
		case "setup_path":
			s.scalar(&i.SetupPath)
		case "pid_path":
			s.scalar(&i.PIDPath)
		case "config_path":
			s.scalar(&i.ConfigPath)
		case "log_path":
			s.scalar(&i.LogPath)
		case "user":
			s.scalar(&i.User)
		default:
			s.value()
		}
	})
}

func (c *controlBody) read(s *scanner) {
	s.object("control", func(name []byte) {
		switch string(name) {
		case "start_cmd":
			s.scalar(&c.Start)
		case "stop_cmd":
			s.scalar(&c.Stop)
		case "restart_cmd":
			s.scalar(&c.Restart)
		case "reload_cmd":
			s.scalar(&c.Reload)
		case "kill_cmd":
			s.scalar(&c.Kill)
		case "version_cmd":
			s.scalar(&c.Version)
		case "health_cmd":
			s.scalar(&c.Health)
		default:
			s.value()
		}
	})
}

func (r *resourceBody) read(s *scanner) {
	s.object("resource", func(name []byte) {
		switch string(name) {
		case "cpu":
			s.scalar(&r.CPU)
		case "mem":
			s.scalar(&r.Mem)
		case "fd":
			s.scalar(&r.FD)
		case "disk":
			s.scalar(&r.Disk)
		case "net":
			s.scalar(&r.Net)
		default:
			s.value()
		}
	})
}

func (p *policyBody) read(field string, s *scanner) {
	s.object(field, func(name []byte) {
		switch string(name) {
		case "auto_type":
			s.scalar(&p.AutoType)
		case "start_check_secs":
			s.scalar(&p.StartCheck)
		case "stop_check_secs":
			s.scalar(&p.StopCheck)
		case "start_retries":
			s.scalar(&p.StartRetries)
		case "start_interval":
			s.scalar(&p.StartInterval)
		case "op_timeout":
			s.scalar(&p.OpTimeout)
		case "crontab_rule":
			s.scalar(&p.Crontab)
		case "crotab_rule":
			s.scalar(&p.Crotab)
		default:
			s.value()
		}
	})
}

func (w *warnBody) read(s *scanner) {
	s.object("warn_report_policy", func(name []byte) {
		if string(name) == "report_id" {
			s.scalar(&w.ReportID)
			return
		}
		s.value()
	})
}

func (c *configBody) read(s *scanner) {
	s.object("configmap", func(name []byte) {
		switch string(name) {
		case "path":
			s.scalar(&c.Path)
		case "md5":
			s.scalar(&c.MD5)
		default:
			s.value()
		}
	})
}
