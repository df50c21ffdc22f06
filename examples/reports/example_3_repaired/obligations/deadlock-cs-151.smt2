; No DEADLOCK: the arrivals that line 151 (Await(cs, post, 0)) waits for come earlier in program
; order, from every home that signals its element.
; Expected: unsat.
(set-logic QF_LIA)
(declare-const await.task Int)
(assert (<= 0 await.task))
(assert (< await.task 1))
(assert (<= 0 0))
; arrive1: line 145: Arrive(cuda_in_order) >> cs
(define-fun arrive1.signals () Bool (and (<= 0 await.task) (< await.task 1)))
(define-fun starved () Bool (not arrive1.signals))
; arrive2: line 145: Arrive(cuda_in_order) >> cs
(declare-const arrive2.task Int)
(define-fun arrive1.is_enough () Bool (and (<= 0 await.task) (< await.task 1) (<= 0 0)))
(define-fun arrive2.home_is_late () Bool (and (<= 0 arrive2.task) (< arrive2.task 1) (or (< arrive2.task await.task) (= arrive2.task await.task)) (= arrive2.task await.task) (not arrive1.is_enough)))
(assert (or starved arrive2.home_is_late))
(check-sat)
