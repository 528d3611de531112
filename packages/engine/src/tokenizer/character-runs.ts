// Made by scripts/golden/character-classes.mjs. Do not edit.

/**
 * Runs of letters (L), numbers (N), punctuation (P) and white space (S) of Unicode 15.1 in rising order: the class, how far the run
 * begins after the end of the run before it, and after a dot its length when that is not 1, both in base 36.
 */
export const CHARACTER_RUNS =
  "S9.5 Si P0.3 P1.6 P1.4 N0.a P0.2 P3.2 L0.q P0.3 P1 L1.q P0 P1 S7 Sq P0 P5 L2 P0 N6.2 L1 P0.2 N1 L0 P0 N0.3 P0 L0.n L1.v " +
  "L1.cq L4.c Le.5 L7 L1 L3l.5 L1.2 L2.4 P0 L0 L6 P0 L0.3 L1 L1.k L1.2b L1.3v L8.4m L1.12 L2 P0.6 L0.15 P0.2 P1f P1 P2 P2 " +
  "L9.r L4.4 P0.2 Pk.2 P1.2 Pd P1.3 L0.17 Nl.a P0.4 L0.2 L1.2r P0 L0 Lf.2 L7.2 N0.a L0.3 L2 P0.e L2 L1.u Lt.2h Lb Ne.a L0.x " +
  "L9.2 P1.3 L0 L5.m L4 L9 L3 P7.f L1.p P5 L1.b L5.o L1.6 Lh.16 L1m.1i L3 Li L7.a P2.2 N0.a P0 L0.g L4.8 L2.2 L2.m L1.7 L1 " +
  "L3.4 L3 Lg Ld.2 L1.3 N4.a L0.2 N2.6 L2 P0 L7.6 L4.2 L2.m L1.7 L1.2 L1.2 L1.2 Lv.4 L1 N7.a L2.3 P1 Le.9 L1.3 L1.m L1.7 " +
  "L1.2 L1.5 L3 Li Lf.2 N4.a P0 L8 Lb.8 L2.2 L2.m L1.7 L1.2 L1.5 L3 Lu.2 L1.3 N4.a L1 N0.6 Lb L1.6 L3.3 L1.4 L3.2 L1 L1.2 " +
  "L3.2 L3.3 L3.c Lm Nl.d Li.8 L1.3 L1.n L1.g L3 Lq.3 L2 L2.2 N4.a P7 N0.7 L1 P3 L0.8 L1.3 L1.n L1.a L1.5 L3 Lv.2 L1.2 N4.a " +
  "L1.2 Lh.9 L1.3 L1.15 L2 Lg L5.3 N1.7 L0.3 N4.j L1.6 L5.i L3.o L1.9 L1 L2.7 Nv.a P4 Lc.1c L1.2 Lc.7 P8 N0.a P0.2 L11.2 L1 " +
  "L1.5 L1.o L1 L1.a L1.2 L9 L2.5 L1 N9.a L2.4 Lw P3.f P1 Nb.k P6.4 L2.8 L1.10 Po L2.5 P1v.5 P4.2 L11.17 Lk N0.a P0.6 L0.6 " +
  "L4.4 L3 L3.2 L7.3 L4.d Lc N1.a L6.12 L1 L5 L2.17 P0 L0.99 L1.4 L2.7 L1 L1.4 L2.15 L1.4 L2.x L1.4 L2.7 L1 L1.4 L2.f L1.1l " +
  "L1.4 L2.1v P5.9 N0.k L3.g Lg.2e L2.6 P2 L0.h8 P1 L0.h S0 L0.q P0.2 L3.23 P0.3 N0.3 L0.8 L7.i Ld.j P3.2 L9.i Le.d L1.3 " +
  "Lf.1g Pw.3 L0 P0.3 L1 N3.a N6.a P6.b N5.a L6.2h L7.5 L2.y L1 L5.1y La.v P11.2 N0.a L0.u L2.5 Lb.18 L4.q N6.b L11.n P7.2 " +
  "L0.1h N17.a N6.a P6.7 L0 P0.6 L2f.1b Lh.8 N3.a P0.7 Ps.2 L4.u Ld.2 N0.a L0.18 Pm.4 L0.10 Pn.5 N0.a L3.3 N0.a L0.10 P0.2 " +
  "L0.9 L7.17 L2.3 P0.8 Pb Ll.4 L1.6 L1.2 L3 L5.5c L1s.7q L2.6 L2.12 L2.6 L2.8 L1 L1 L1 L1.v L2.1h L1.7 L1 L3.3 L1.7 L3.4 " +
  "L2.6 L4.d L5.3 L1.7 S3.b P5.o S0.2 S5 P0.k P1.d P1.c S0 Ng L0 N2.6 P3.2 L0 N0.a P3.2 L1.d L2t L4 L2.a L1 L3.5 L6 L1 L1 " +
  "L1.4 L1.b L2.4 L5.5 L4 N1.1f L0.2 N0.5 Pam.4 Pt.2 N8l.1o N26.m Ph4.e N0.u P1d.2 Pv.a Pb7.m P1r.4 Pw.2 Lea.6d L6.4 L3.2 " +
  "P5.4 N0 P0.2 L0.12 L1 L5 L2.1k L7 P0 Lf.n L9.7 L1.7 L1.7 L1.7 L1.7 L1.7 L1.7 L1.7 Px.1b L0 P0.w P2.c Sbm P0.3 L1.2 N0 " +
  "P0.a P2.c N1.9 P6 L0.5 N2.3 L0.2 P0 L3.2e L6.3 P0 L0.2i P0 L0.4 L5.17 L1.2m N3.4 La.w L1c.g Nw.a Nu.8 N1.f Nw.a N13.f " +
  "L8w.534 L1s.h3h L1v.1a P0.2 L0.7h P0.3 L0.g N0.a L0.2 Lk.1b P4 Pa L0.v L2.1y N0.a P2.6 Lv.9 L2.2v L2.1s L5.2 L1 L1.5 " +
  "Lo.g L1.3 L1.4 L1.n Nd.6 La.1g P0.4 La.1e Pq.2 N0.a Lo.6 P0.3 L0 P0 L0.2 N1.a L0.s P8.2 L0.n Po L0.t L7.1b Pe.d L1 N0.a " +
  "P4.2 L0.5 L1.a N0.a L0.5 L1.15 Ln.3 L1.8 N4.a P2.4 L0.n L3 L3.1e L1 L3.2 L2.5 L2 L1 Lo.3 P0.2 L0.b P5.2 L0.3 Lc.6 L2.6 " +
  "L2.6 L9.7 L1.7 L1.17 L1.e L6.37 P8 N4.a L6.8mc Lc.n L4.1d L6is.a6 L2.2y L12.7 Lc.5 L5 L1.a L1.d L1.5 L1 L1.2 L1.2 L1.30 " +
  "Lx.a3 P0.2 Lg.1s L2.1i L14.c Pk.a Pm.z P1.e P1 P4 P1.2 L4.5 L1.3r P4.3 P1.6 P1.4 N0.a P0.2 P3.2 L0.q P0.3 P1 L1.q P0 P1 " +
  "P1.7 L0.2h L3.6 L2.6 L2.6 L2.3 Lz.c L1.q L1.j L1.2 L1.f L2.e Ly.3f P5.3 N4.19 Nc.1l Nh.2 L6s.t L3.1d Ng.r L4.w N0.4 L9.k " +
  "N0 L0.8 N0 L5.12 La.u P1 L0.10 L4.8 P0 N0.5 L16.4e N2.a L6.10 L4.10 L4.14 L8.1g Pb L0.b L1.f L1.7 L1.2 L1.b L1.f L1.7 " +
  "L1.2 L1v.8n L9.m La.8 Lo.6 L1.16 L1.9 L1x.6 L2 L1.18 L1.2 L3 L2.n P1 N0.8 L0.n N2.7 L0.v N8.9 L1c.j L1.2 N5.5 L0.m N0.6 " +
  "P3 L0.q P5 L1s.1k N4.2 L0.2 N0.g N2.1a L0 Lf.4 L1.3 L1.t Na.9 P7.9 L7.t N0.2 P0 L0.t N0.3 Lw.8 L1.s N6.5 P0.7 L9.1i P3.7 " +
  "L0.m N2.8 L0.j N5.8 L0.i P7.4 Nc.7 L28.21 L1j.1f Ld.1f N7.6 L0.10 Nc.a N86.v L1.16 P3 L2.2 L26.t N0.a L0 L8.m Nb.4 P0.5 " +
  "Lm.i P4.4 L12.l N0.7 Lk.n Lc.1h Pf.7 N4.u L1.2 L2 Ld.19 Pb.2 P1.4 Le.p N7.a L9.10 Nf.a P0.4 L0 L2 L8.z P1.2 L0 Lc.1c " +
  "Le.4 P0.4 P4 N2.a L0 P0 L0 P0.3 N1.k Lb.i L1.p Pc.6 L1.2 L1r.7 L1 L1.4 L1.f L1.a P0 L6.1b Nh.a Lb.8 L2.2 L2.m L1.7 L1.2 " +
  "L1.5 L3 Li Lc.5 L4e.1h Li.4 P0.5 N0.a P0.2 P1 L1.3 Lu.1c Lk.2 P0 L0 N8.a L4m.1b Pi.n L0.4 L10.1c Ph.3 L0 Nb.a P6.d Lj.17 " +
  "Ld P0 N6.a L1i.r Nl.c P0.3 L1.7 L55.18 Pf L2s.1s N0.j Lc.8 L2 L2.8 L1.2 L1.o Lf L1 P2.3 N9.a L1y.8 L2.13 Lg P0 L0 Ls " +
  "La.14 L7 P4.8 L9 Lb.1a Pg.3 L0 P0.5 Ld.21 P7.a L6u.9 L1.11 Lh P0.5 Na.t P3.2 L0.u L34.7 L1.2 L1.12 Ll N9.a L6.6 L1.2 " +
  "L1.w Le N7.a L8m.j P4.2 L9 L1.d L1.y Pf.d N0.a L2e Nf.l P16 L0.pm N2u.33 P1.5 Lb.5g L218.2p P0.2 Ld.ts Lh.6 L33t.g7 " +
  "L6nt.ft L7.v N1.a P4.2 L0.27 N1.a L6.u P7 La.1c P7.5 L4.4 P0 Nb.a N1.7 L1.l L5.j Lj4.1s N0.n P0.4 L2t.23 L5 L1u.d L1s.2 " +
  "P0 L0 Ls.4qg L8.ye L16.9 L6w7.4 L1.7 L1.2 L1.83 Lf Lt.3 L2 Le.4 L8.b0 L1s4.2z L5.d L3.9 L7.a P5 N4dc.k Nc.k N30.p L3r.2d " +
  "L1.1z L1.2 L2 L2.2 L2.4 L1.c L1 L1.7 L1.1t L1.4 L2.8 L1.7 L1.s L1.4 L1.5 L1 L3.7 L1.9g L2.p L1.p L1.v L1.p L1.v L1.p " +
  "L1.v L1.p L1.v L1.p L1.8 N2.1e Phz.5 Lvo.v L6.6 L79.1q L42.19 La.7 N2.a L4 L8x.u Li.18 N4.a Ld2.s N4.a Lkm.7 L1.4 L1.2 " +
  "L1.f L1.5h N2.9 L1c.1w L7 N4.a P4.2 Nlt.1n N1.3 N1.4 N24.19 N1.f L5e.4 L1.r L1.2 L1 L2 L1.a L1.4 L1 L1 L6 L4 L1 L1 L1.3 " +
  "L1.2 L1 L2 L1 L1 L1 L1 L1.2 L1 L2.4 L1.7 L1.4 L1.4 L1 L1.a L1.h L5.3 L1.5 L1.h Ng4.d N25f.a Lsm.wyo Lw.37e L6.66 L2.4g2 " +
  "Le.5rl Lf.ha L1wi.f2 L15u.3t7 L5.38g";
