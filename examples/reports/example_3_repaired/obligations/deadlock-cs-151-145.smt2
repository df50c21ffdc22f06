; No DEADLOCK: no Await at line 151 (Await(cs, post, 0)) waits for a later arrival at line 145
; (Arrive(cuda_in_order) >> cs).
; Expected: unsat.
(set-logic QF_LIA)
(declare-const arrive.task Int)
(declare-const await.task Int)
(assert (<= 0 arrive.task))
(assert (< arrive.task 1))
(assert (<= 0 await.task))
(assert (< await.task 1))
(assert (< await.task arrive.task))
(assert (= await.task arrive.task))
(assert (<= 0 0))
(check-sat)
